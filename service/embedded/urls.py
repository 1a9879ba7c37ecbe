"""The addresses of the servers and of the service: from the settings, or from a data folder.

A service on embedded servers writes them into its data folder. Each command reads them when it
starts, so this module imports little.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from service.embedded.secret import write_private
from service.errors import ConfigurationError, EmbeddedServerError

if TYPE_CHECKING:
    import asyncio

    from service.settings import Settings

CLUSTER: Final = "database"
"""PostgreSQL's own folder. Before 1.0.0 it was `postgres`, which is left alone."""
KEY_FILE: Final = "operator-key"
"""In a data folder: the API key of the commands that run on the same machine as its service."""
_ANNOUNCEMENT = "running.json"


@dataclass(frozen=True, slots=True)
class Urls:
    """The URLs of the two servers, with passwords.

    `died` is set for embedded servers: it gets the error to raise if one of them stops by itself.
    """

    database: str = field(repr=False)
    redis: str = field(repr=False)
    died: "asyncio.Future[EmbeddedServerError] | None" = field(default=None, repr=False)


def find_urls(settings: "Settings") -> Urls | None:
    """The servers of the settings, or of a Precis that runs on `data_dir`.

    None if none runs: embedded servers have to be started on the existing data.

    Raises:
        ConfigurationError: `data_dir` has no database, or only one of the two URLs is set.
        EmbeddedServerError: `data_dir` cannot be read.
    """
    if urls := read_settings_urls(settings) or read_announcement(settings.data_dir):
        return urls
    if not (settings.data_dir / CLUSTER).is_dir():
        raise ConfigurationError(
            f"{settings.data_dir.absolute()} has no database of Precis, and none was made."
            " Set PRECIS_DATA_DIR to the folder of your service, or PRECIS_DATABASE_URL and"
            " PRECIS_REDIS_URL to its servers. To make a new database, run `precis serve` or"
            " `precis migrate`"
        )
    return None


def read_settings_urls(settings: "Settings") -> Urls | None:
    """The servers of the settings; None if neither URL is set.

    Raises:
        ConfigurationError: only one of the two URLs is set.
    """
    database, redis = settings.database_url, settings.redis_url
    if database and redis:
        return Urls(database.get_secret_value(), redis.get_secret_value())
    if database or redis:
        raise ConfigurationError(
            "set both PRECIS_DATABASE_URL and PRECIS_REDIS_URL, or neither for the embedded servers"
        )
    return None


def read_announcement(data_dir: Path) -> Urls | None:
    """The servers of the service that runs on `data_dir`; None if none runs.

    Raises:
        EmbeddedServerError: `data_dir` cannot be read.
    """
    about = find_announcement(data_dir)
    return Urls(about["database"], about["redis"]) if about else None


def find_announcement(data_dir: Path) -> dict[str, Any] | None:
    """The announcement of the service that runs on `data_dir`; None if none runs.

    It has `pid`, `database`, `redis`, and the `address` at which the service listens.

    Raises:
        EmbeddedServerError: `data_dir` cannot be read.
    """
    path = data_dir / _ANNOUNCEMENT
    try:
        about: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EmbeddedServerError(
            f"{path.absolute()} cannot be read: {error.strerror}."
            " Run this as the user of the service"
        ) from error
    import psutil  # most commands do not need it

    # A kill -9 leaves the file behind.
    return about if psutil.pid_exists(about["pid"]) else None


@contextmanager
def announce(data_dir: Path, urls: Urls, address: str) -> Iterator[None]:
    """Writes the service's and its servers' addresses to a file that only this user can read."""
    path = data_dir / _ANNOUNCEMENT
    about = {
        "pid": os.getpid(),
        "database": urls.database,
        "redis": urls.redis,
        "address": address,
    }
    write_private(path, json.dumps(about))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def make_address(host: str, port: int) -> str:
    """The URL at which this machine reaches a service that listens there."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"
