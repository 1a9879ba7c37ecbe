"""Opens everything that a Precis process needs, in order, and closes it in the opposite order.

The only difference between the embedded and the fleet way to run is here: who starts the servers.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx
import psutil

from service.clients.summarisers import configured, for_models
from service.embedded import embedded_servers, exists
from service.errors import ConfigurationError, EmbeddedServerError, NothingHere
from service.processes import Texts
from service.queue import Queue
from service.settings import Settings
from service.storage import keys
from service.storage.database import Database, check_schema, connect, migrate
from service.usecases.compress import WorkerContext

FIRST_TENANT = "default"
_ANNOUNCEMENT = "running.json"
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the two servers are.

    `died` is set for embedded ones: it resolves when one ends by itself.
    """

    database: str = field(repr=False)
    redis: str = field(repr=False)
    died: "asyncio.Future[EmbeddedServerError] | None" = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The open resources.

    `first_keys` (scope → key) is filled when this start made the first ones.
    """

    settings: Settings
    urls: Urls
    database: Database
    queue: Queue
    worker_context: WorkerContext
    texts: Texts
    first_keys: dict[keys.Scope, str] = field(default_factory=dict)


@asynccontextmanager
async def servers(settings: Settings) -> AsyncIterator[Urls]:
    """The servers of the settings, or embedded ones in `data_dir`.

    `data_dir` is made when it is missing, and its database is migrated.

    Raises:
        ConfigurationError: only one of the two URLs is set.
        EmbeddedServerError: an embedded server cannot run.
        SchemaError: the database is newer than this version.
    """
    if given := _given(settings):
        yield given
        return
    async with _embedded(settings) as urls:
        await migrate(urls.database)
        with _announced(settings.data_dir / _ANNOUNCEMENT, urls):
            yield urls


@asynccontextmanager
async def reachable(settings: Settings) -> AsyncIterator[Urls]:
    """The servers for a command: those of the settings, or of a Precis that runs on `data_dir`.

    When none runs, embedded ones are started for its time, on the data that is there. Nothing is
    made or migrated.

    Raises:
        NothingHere: `data_dir` has no database.
        ConfigurationError: only one of the two URLs is set.
        EmbeddedServerError: an embedded server cannot run, or `data_dir` cannot be read.
    """
    if urls := _given(settings) or announced(settings):
        yield urls
        return
    if not _readable(exists, settings.data_dir):
        raise NothingHere(
            f"there is no database of Precis in {settings.data_dir.absolute()}, and none was made."
            " Set PRECIS_DATA_DIR to the folder of your service, or PRECIS_DATABASE_URL and"
            " PRECIS_REDIS_URL to its servers; `precis serve` and `precis migrate` make a new"
            " database"
        )
    async with _embedded(settings) as urls:
        yield urls


def announced(settings: Settings) -> Urls | None:
    """The servers of a Precis that runs on `data_dir`; None when none does.

    Raises:
        EmbeddedServerError: `data_dir` cannot be read.
    """
    announcement = settings.data_dir / _ANNOUNCEMENT
    if not _readable(Path.is_file, announcement):
        return None
    said = json.loads(_readable(Path.read_text, announcement))
    # A kill -9 leaves the file behind.
    return Urls(said["database"], said["redis"]) if psutil.pid_exists(said["pid"]) else None


def _readable(look: Callable[[Path], Seen], path: Path) -> Seen:
    try:
        return look(path)
    except OSError as error:
        raise EmbeddedServerError(
            f"{path.absolute()} cannot be read: {error.strerror}."
            " Run this as the user of the service"
        ) from error


def _given(settings: Settings) -> Urls | None:
    """The servers of the settings; None when neither is set."""
    given = settings.database_url, settings.redis_url
    if given[0] and given[1]:
        return Urls(given[0].get_secret_value(), given[1].get_secret_value())
    if given[0] or given[1]:
        raise ConfigurationError(
            "set both PRECIS_DATABASE_URL and PRECIS_REDIS_URL, or neither for the embedded servers"
        )
    return None


@asynccontextmanager
async def _embedded(settings: Settings) -> AsyncIterator[Urls]:
    async with embedded_servers(settings.data_dir, fast=settings.fast_and_unsafe) as started:
        yield Urls(started.database_url, started.redis_url, started.died)


@contextmanager
def _announced(path: Path, urls: Urls) -> Iterator[None]:
    """Says where the servers are, in a file of `data_dir` that this user alone can read."""
    path.unlink(missing_ok=True)  # left behind by a kill -9
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"pid": os.getpid(), "database": urls.database, "redis": urls.redis}, file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


@asynccontextmanager
async def running(
    settings: Settings, urls: Urls, shared: Texts | None = None
) -> AsyncIterator[Runtime]:
    """Connections, keys, text processes and summariser on servers that are there.

    The text processes are our own, unless several runtimes of one process are to share some.
    """
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(connect(urls.database))
        await check_schema(database.engine)
        queue = await Queue.connect(urls.redis)
        stack.push_async_callback(queue.close)
        http = await stack.enter_async_context(httpx.AsyncClient())
        texts = shared or stack.enter_context(_text_processes(settings))
        summariser, others = configured(settings, http), for_models(settings, http)
        worker_context = WorkerContext(database.engine, settings, summariser, texts, others=others)
        first_keys = await _first_keys(database, settings)
        yield Runtime(settings, urls, database, queue, worker_context, texts, first_keys)


@contextmanager
def _text_processes(settings: Settings) -> Iterator[Texts]:
    texts = Texts(settings.text_processes, settings.text_seconds, settings.text_memory * 2**20)
    try:
        yield texts
    finally:
        texts.close()


async def _first_keys(database: Database, settings: Settings) -> dict[keys.Scope, str]:
    """One key of each scope at the first start of an embedded service.

    A fleet's operator makes keys by command.
    """
    if settings.database_url:
        return {}
    async with database.engine.begin() as connection:
        if await keys.everyone(connection):
            return {}
        scopes: tuple[keys.Scope, ...] = ("filter", "operator")
        return {
            scope: await keys.create(connection, FIRST_TENANT, scope, "first start")
            for scope in scopes
        }
