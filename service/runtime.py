"""Opens everything that a Precis process needs, in order, and closes it in the opposite order.

Only here does a process on embedded servers differ from one of a fleet: it starts them.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from service.clients.summarisers import (
    make_summariser,
    make_summarisers,
    open_client,
)
from service.clients.wake_ups import Queue
from service.embedded.dumps import dump_before_migration
from service.embedded.servers import run_embedded_servers
from service.embedded.urls import Urls as Urls
from service.embedded.urls import find_urls, read_settings_urls
from service.processes import Texts, pool
from service.settings import Settings, list_warnings
from service.storage.database import Database, check_schema, connect, is_tls_demanded, migrate
from service.usecases.compress import WorkerContext
from service.usecases.counting import Counting, open_counting
from service.usecases.install.addresses import is_inside

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Runtime:
    """The open resources.

    Ingests and look-ups read texts in the processes of `texts`; rounds have their own.
    """

    settings: Settings
    urls: Urls
    database: Database
    queue: Queue
    worker_context: WorkerContext
    texts: Texts
    counting: Counting


@asynccontextmanager
async def open_servers(settings: Settings) -> AsyncIterator[Urls]:
    """The servers of the settings, or embedded ones in `data_dir`.

    `data_dir` is made if it is missing, and its database is dumped and migrated.

    Raises:
        ConfigurationError: only one of the two URLs is set, or no dump can be made before a
            migration.
        EmbeddedServerError: an embedded server cannot run.
        SchemaError: the database is newer than this version.
    """
    if urls := read_settings_urls(settings):
        yield urls
        return
    async with run_embedded_servers(settings.data_dir) as urls:
        await dump_before_migration(urls.database, settings)
        await migrate(urls.database)
        yield urls


@asynccontextmanager
async def check_reachable(settings: Settings) -> AsyncIterator[Urls]:
    """The servers for a command: those of the settings, or of a Precis that runs on `data_dir`.

    If none runs, embedded servers run on the existing data for as long as the command. Nothing is
    made or migrated.

    Raises:
        ConfigurationError: `data_dir` has no database, or only one of the two URLs is set.
        EmbeddedServerError: an embedded server cannot run, or `data_dir` cannot be read.
    """
    if urls := find_urls(settings):
        yield urls
        return
    async with run_embedded_servers(settings.data_dir) as urls:
        yield urls


@asynccontextmanager
async def open_runtime(
    settings: Settings, urls: Urls, shared: Texts | None = None
) -> AsyncIterator[Runtime]:
    """Connections, keys, text processes and summariser, on running servers.

    Runtimes of one process may have `shared` text processes; otherwise each has its own.
    """
    async with AsyncExitStack() as stack:
        connecting = connect(urls.database, keys=settings.sealing_keys)
        database = await stack.enter_async_context(connecting)
        await check_schema(database.reads)
        await database.keyring.check_keys()
        queue = await Queue.connect(urls.redis)
        stack.push_async_callback(queue.close)
        http = await stack.enter_async_context(open_client(settings))
        # Two pools, so that ingests and rounds do not wait for each other's texts. A process starts
        # when it is needed: a worker has none for ingests, and an API has none for rounds.
        texts = shared or await _open_text_processes(stack)
        texts_of_rounds = shared or await _open_text_processes(stack)
        summariser, others = make_summariser(settings, http), make_summarisers(settings, http)
        warnings = list_warnings(settings) + _explain_missing_tls(urls)
        for warning in warnings:
            log.warning("start.warning", what=warning)
        worker_context = WorkerContext(
            database.engine,
            database.slow,
            settings,
            summariser,
            texts_of_rounds,
            others=others,
            warnings=warnings,
        )
        counts = await stack.enter_async_context(open_counting(database.engine))
        yield Runtime(settings, urls, database, queue, worker_context, texts, counts)


def _explain_missing_tls(urls: Urls) -> list[str]:
    """Warnings about servers on another network whose URLs do not demand TLS."""
    without = []
    database, redis = urlsplit(urls.database).hostname, urlsplit(urls.redis).hostname
    if database and not is_inside(database) and not is_tls_demanded(urls.database):
        without.append(
            f"PRECIS_DATABASE_URL connects to {database}, perhaps without TLS: add"
            " ?sslmode=verify-full&sslrootcert=FILE (docs/howto/tls.md)"
        )
    if redis and not is_inside(redis) and not urls.redis.startswith("rediss:"):
        without.append(
            f"PRECIS_REDIS_URL connects to {redis} without TLS: write"
            " rediss://…?ssl_ca_certs=FILE&ssl_check_hostname=true (docs/howto/tls.md)"
        )
    return without


async def _open_text_processes(stack: AsyncExitStack) -> Texts:
    """A pool of text processes, which ends with the stack."""
    texts = Texts(pool.PROCESSES, pool.SECONDS, pool.MEMORY)
    return await stack.enter_async_context(aclosing(texts))
