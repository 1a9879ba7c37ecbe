"""Where the servers of a Precis and the service itself are: in the settings, or in a data folder.

A service on embedded servers writes it into its data folder. Commands read it at their start, so
little is imported here.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from service.embedded.secret import write_private
from service.errors import ConfigurationError, EmbeddedServerError

if TYPE_CHECKING:
    import asyncio

    from service.settings import Settings

CLUSTER: Final = "database"
"""PostgreSQL's own folder. Before 1.0.0 it was `postgres`, which is left beside it."""
KEY_FILE: Final = "operator-key"
"""In a data folder: the key of the commands that run beside its service."""
_ANNOUNCEMENT = "running.json"
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the two servers are, with passwords.

    `died` is set for embedded ones: it gets the error to raise when one ends by itself.
    """

    database: str = field(repr=False)
    redis: str = field(repr=False)
    died: "asyncio.Future[EmbeddedServerError] | None" = field(default=None, repr=False)


def exists(folder: Path) -> bool:
    """Return whether a data folder holds a database; looks, and makes nothing."""
    return (folder / CLUSTER / "PG_VERSION").is_file()


def is_running(pid: int) -> bool:
    """Whether any process of any user has this number."""
    try:
        os.kill(pid, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True


def existing(settings: "Settings") -> Urls | None:
    """The servers of the settings, or of a Precis that runs on `data_dir`.

    None when none runs, and embedded ones have to be started on the data that is there.

    Raises:
        ConfigurationError: `data_dir` has no database, or only one of the two URLs is set.
        EmbeddedServerError: `data_dir` cannot be read.
    """
    if urls := by_settings(settings) or announced(settings):
        return urls
    if not readable(exists, settings.data_dir):
        raise ConfigurationError(
            f"there is no database of Precis in {settings.data_dir.absolute()}, and none was made."
            " Set PRECIS_DATA_DIR to the folder of your service, or PRECIS_DATABASE_URL and"
            " PRECIS_REDIS_URL to its servers; `precis serve` and `precis migrate` make a new"
            " database"
        )
    return None


def by_settings(settings: "Settings") -> Urls | None:
    """The servers of the settings; None when neither is set.

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


def announced(settings: "Settings") -> Urls | None:
    """The servers of a Precis that runs on `data_dir`; None when none does.

    Raises:
        EmbeddedServerError: `data_dir` cannot be read.
    """
    urls = announcement(settings.data_dir)
    return Urls(urls["database"], urls["redis"]) if urls else None


def address(settings: "Settings") -> str | None:
    """Where the service that runs on `data_dir` listens; None when that is not known.

    Raises:
        EmbeddedServerError: `data_dir` cannot be read.
    """
    return None if by_settings(settings) else (announcement(settings.data_dir) or {}).get("address")


def reached_at(host: str, port: int) -> str:
    """The URL at which this machine reaches a service that listens there."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def announce_address(data_dir: Path, listens_at: str) -> None:
    """Adds to the announcement where the service listens, which only this process may do."""
    path = data_dir / _ANNOUNCEMENT
    content = json.loads(path.read_text()) | {"address": listens_at}
    write_private(path.with_suffix(".new"), json.dumps(content))
    path.with_suffix(".new").replace(path)


def announcement(data_dir: Path) -> dict[str, Any] | None:
    """What the service that runs on `data_dir` wrote about itself; None when none runs.

    That is `pid`, `database`, `redis`, and once it listens its `address`.

    Raises:
        EmbeddedServerError: `data_dir` cannot be read.
    """
    path = data_dir / _ANNOUNCEMENT
    if not readable(Path.is_file, path):
        return None
    content: dict[str, Any] = json.loads(readable(Path.read_text, path))
    # A kill -9 leaves the file behind.
    return content if is_running(content["pid"]) else None


@contextmanager
def announcing(data_dir: Path, urls: Urls) -> Iterator[None]:
    """Says where the servers are, in a file of `data_dir` that this user alone can read."""
    path = data_dir / _ANNOUNCEMENT
    content = {"pid": os.getpid(), "database": urls.database, "redis": urls.redis}
    write_private(path, json.dumps(content))  # in place of what a kill -9 left behind
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def readable(look: Callable[[Path], Seen], path: Path) -> Seen:
    """What a look at a path in a data folder sees.

    Raises:
        EmbeddedServerError: this user may not read it.
    """
    try:
        return look(path)
    except OSError as error:
        raise EmbeddedServerError(
            f"{path.absolute()} cannot be read: {error.strerror}."
            " Run this as the user of the service"
        ) from error
