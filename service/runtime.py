"""Opens everything that a Precis process needs, in order, and closes it in the opposite order.

The only difference between the embedded and the fleet way to run is here: who starts the servers.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from service.compress import Bench
from service.doorbell import Doorbell
from service.embedded import embedded_servers
from service.errors import ConfigurationError, EmbeddedServerError
from service.settings import Settings
from service.storage import keys
from service.storage.database import Database, check_schema, connect, migrate
from service.summarising.summarisers import ExtractiveSummariser, configured

FIRST_TENANT = "default"
_ANNOUNCEMENT = "running.json"


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the two servers are. `died` is set for embedded ones: it resolves when one ends by itself."""

    database: str = field(repr=False)
    redis: str = field(repr=False)
    died: "asyncio.Future[EmbeddedServerError] | None" = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The open resources. `first_keys` (scope → key) is filled when this start made the first ones."""

    settings: Settings
    urls: Urls
    database: Database
    doorbell: Doorbell
    bench: Bench
    first_keys: dict[keys.Scope, str] = field(default_factory=dict)


@asynccontextmanager
async def servers(settings: Settings) -> AsyncIterator[Urls]:
    """The servers of the settings, or embedded ones in `data_dir`, migrated.

    Raises:
        ConfigurationError: only one of the two URLs is set.
        EmbeddedServerError: an embedded server cannot run.
        SchemaError: an operator's own database is not at the newest migration.
    """
    given = settings.database_url, settings.redis_url
    if given[0] and given[1]:
        yield Urls(given[0].get_secret_value(), given[1].get_secret_value())
        return
    if given[0] or given[1]:
        raise ConfigurationError(
            "set both PRECIS_DATABASE_URL and PRECIS_REDIS_URL, or neither for the embedded servers"
        )
    async with embedded_servers(settings.data_dir, fast=settings.fast_and_unsafe) as started:
        await migrate(started.database_url)
        urls = Urls(started.database_url, started.redis_url, started.died)
        with _announced(settings.data_dir / _ANNOUNCEMENT, urls):
            yield urls


@asynccontextmanager
async def reachable(settings: Settings) -> AsyncIterator[Urls]:
    """The same for a command: the servers of a Precis that runs on `data_dir`, or else embedded ones for its time."""
    announcement = settings.data_dir / _ANNOUNCEMENT
    if settings.database_url is None and announcement.is_file():
        told = json.loads(announcement.read_text())
        if psutil.pid_exists(told["pid"]):
            yield Urls(told["database"], told["redis"])
            return
    async with servers(settings) as urls:
        yield urls


@contextmanager
def _announced(path: Path, urls: Urls) -> Iterator[None]:
    """Tells commands on the same data folder where the servers are, in a file for our own eyes."""
    path.unlink(missing_ok=True)  # left behind by a kill -9
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"pid": os.getpid(), "database": urls.database, "redis": urls.redis}, file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


@asynccontextmanager
async def running(settings: Settings, urls: Urls) -> AsyncIterator[Runtime]:
    """Connections, keys and summariser on servers that are there."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(connect(urls.database))
        await check_schema(database.engine)
        doorbell = await Doorbell.connect(urls.redis)
        stack.push_async_callback(doorbell.close)
        http = await stack.enter_async_context(httpx.AsyncClient())
        built_in = ExtractiveSummariser()
        bench = Bench(database.engine, settings, configured(settings, http, built_in), built_in)
        yield Runtime(settings, urls, database, doorbell, bench, await _first_keys(database, settings))


async def _first_keys(database: Database, settings: Settings) -> dict[keys.Scope, str]:
    """One key of each scope at the first start of an embedded service; a fleet's operator makes keys by command."""
    if settings.database_url:
        return {}
    async with database.engine.begin() as connection:
        if await keys.everyone(connection):
            return {}
        scopes: tuple[keys.Scope, ...] = ("filter", "operator")
        return {scope: await keys.create(connection, FIRST_TENANT, scope, "first start") for scope in scopes}
