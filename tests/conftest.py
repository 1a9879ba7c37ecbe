"""Real PostgreSQL, real Valkey, a real service on loopback.

Servers: those of `TEST_DATABASE_URL` and `TEST_REDIS_URL`, else containers where Docker answers, else the embedded
ones. Each test gets a database of its own, made from a migrated template.
"""

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import asyncpg
import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from redis.asyncio import Redis
from sqlalchemy import make_url, text

from service.api import health
from service.api.server import open_listener, run_server
from service.app import create_app
from service.embedded.servers import run_embedded_servers
from service.names import FIRST_TENANT
from service.processes import Texts
from service.runtime import Runtime, Urls, open_runtime
from service.settings import Settings, load
from service.storage import keys
from service.storage.database import migrate
from service.usecases import recall
from service.usecases.compress import compress
from tests import constants
from tests.folders import temporary_folder
from tests.loopback import only_loopback
from tests.shared_texts import SharedTexts
from workers.worker import run_worker as worker_running

TEMPLATE = "precis_template"
# So that digests of one database are found in another, into which its rows were copied (`tests/service/grown.py`).
SAME_SECRET = text("update tenant_secrets set secret = decode(repeat('00', 33), 'hex') where not exists (table chats)")
SLOWEST = "tests/faults/"
METRICS_TOKEN = "t" * 32
TEXTS = SharedTexts()
"""The text processes of all tests; they start with the first test that needs them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first: at the end it would run alone."""
    items.sort(key=lambda item: not item.nodeid.startswith(SLOWEST))


@pytest.fixture(autouse=True, scope="session")
def _only_loopback() -> Iterator[list[str]]:
    with only_loopback() as tried:
        yield tried


@pytest.fixture(autouse=True)
def _tried_beyond(_only_loopback: list[str]) -> Iterator[None]:
    """Whoever tried to reach another machine fails, even if the error was caught."""
    yield
    tried = _only_loopback.copy()
    _only_loopback.clear()
    assert not tried, "a test tried to reach another machine"


@pytest.fixture(autouse=True)
def _usual_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test before this one changed is as usual again."""
    constants.change()
    monkeypatch.setattr(health, "_KEPT", 0.0)
    # Two seconds for the service; a busy machine may need longer for its first text process.
    monkeypatch.setattr(recall, "_SECONDS", 60.0)


@pytest.fixture(autouse=True, scope="session")
def _text_processes() -> Iterator[None]:
    yield
    TEXTS.stop()


@pytest.fixture(autouse=True, scope="session")
def _nothing_from_outside(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither settings nor certificates, all of which each new client of httpx reads: up to 50 ms, some 1,500 times."""
    for name in [name for name in os.environ if name.startswith("PRECIS_") or name == "SSL_CERT_FILE"]:
        del os.environ[name]
    os.environ["SSL_CERT_DIR"] = str(tmp_path_factory.mktemp("certificates"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def servers() -> AsyncIterator[Urls]:
    """The servers of this test run, with a migrated template database."""
    async with AsyncExitStack() as stack:
        urls = await stack.enter_async_context(_servers())
        template = str(make_url(urls.database).set(database=TEMPLATE).render_as_string(hide_password=False))
        await execute(urls.database, f"drop database if exists {TEMPLATE}", f"create database {TEMPLATE}")
        await migrate(template)
        # A pooler stays connected, and PostgreSQL does not copy a database that is in use.
        still = f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{TEMPLATE}'"
        await execute(urls.database, still)
        yield urls


@asynccontextmanager
async def _servers() -> AsyncIterator[Urls]:
    if "TEST_DATABASE_URL" in os.environ:
        yield Urls(os.environ["TEST_DATABASE_URL"], os.environ["TEST_REDIS_URL"])
        return
    if await asyncio.to_thread(_docker_answers):
        from testcontainers.community.postgres import PostgresContainer
        from testcontainers.community.redis import RedisContainer

        with (
            PostgresContainer("postgres:18-alpine", driver=None) as database,
            RedisContainer("valkey/valkey:9") as queue,
        ):
            redis = f"redis://{queue.get_container_host_ip()}:{queue.get_exposed_port(6379)}/0"
            yield Urls(database.get_connection_url(), redis)
        return
    with temporary_folder() as folder:
        async with run_embedded_servers(folder / "data", fast=True) as started:
            yield started


def _docker_answers() -> bool:
    """Whether a Docker engine listens where its clients look for it."""
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not address.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(address.removeprefix("unix://")) == 0


@asynccontextmanager
async def connected(url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection of its own."""
    connection = await asyncpg.connect(make_url(url).set(drivername="postgresql").render_as_string(hide_password=False))
    try:
        yield connection
    finally:
        await connection.close()


async def execute(url: str, *statements: str) -> None:
    async with connected(url) as connection:
        for statement in statements:
            await connection.execute(statement)


async def drop_database(url: str, name: str) -> None:
    """Drops a database, whoever is still connected to it.

    Not "with (force)": that wants the right to end the server's own autovacuum too, should it be at work there. A plain
    drop asks autovacuum to leave, and waits; what a test left open is ended before.
    """
    ours = f"datname = '{name}' and usename = current_user"
    await execute(url, f"select pg_terminate_backend(pid) from pg_stat_activity where {ours}", f"drop database {name}")


@asynccontextmanager
async def fresh_database(servers: Urls) -> AsyncIterator[Urls]:
    """A migrated database of one's own beside the shared Valkey."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    await execute(servers.database, f"create database {name} template {TEMPLATE}")
    database = make_url(servers.database).set(database=name).render_as_string(hide_password=False)
    yield Urls(str(database), servers.redis)
    await drop_database(servers.database, name)


def small_window(urls: Urls) -> Settings:
    """Settings for a small window, so that short conversations need a summary."""
    return load(database_url=urls.database, redis_url=urls.redis, window=8192, metrics_token=METRICS_TOKEN)


@pytest_asyncio.fixture(loop_scope="function")
async def urls(servers: Urls) -> AsyncIterator[Urls]:
    """A migrated database of the test's own, and an empty Valkey."""
    async with Redis.from_url(servers.redis) as redis:
        await redis.flushall()
    async with fresh_database(servers) as made:
        yield made


@pytest.fixture
def settings(urls: Urls) -> Settings:
    """Settings for a small window."""
    return small_window(urls)


@pytest_asyncio.fixture(loop_scope="function")
async def runtime(settings: Settings, urls: Urls) -> AsyncIterator[Runtime]:
    """The open resources of a service, without HTTP."""
    async with open_runtime(settings, urls, TEXTS) as opened:
        yield opened


@dataclass(frozen=True)
class Service:
    """A service that listens on loopback, and clients with its keys."""

    url: str
    runtime: Runtime
    filter_key: str
    operator_key: str
    as_filter: httpx.AsyncClient
    as_operator: httpx.AsyncClient
    as_events: httpx.AsyncClient
    app: FastAPI

    async def stored(self) -> None:
        """Waits until what requests have shown is stored: that is done after their answers."""
        while tasks := list(self.app.state.serving._background):
            await asyncio.gather(*tasks)


def sending(key: str) -> dict[str, str]:
    """The headers of a client with a key, whose bodies are JSON also where a test writes their bytes."""
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}


@asynccontextmanager
async def serving(
    settings: Settings,
    texts: Texts | None = TEXTS,
) -> AsyncIterator[Service]:
    """A service with these settings, without a worker: tests decide when work is done (`drain`).

    With `texts` None, it has text processes of its own.
    """
    listener = open_listener("127.0.0.1", 0)
    async with AsyncExitStack() as stack:
        app = create_app(settings, texts=texts)
        runtime = await stack.enter_async_context(run_server(app, listener))
        async with runtime.database.engine.begin() as connection:
            scopes: tuple[keys.KeyScope, ...] = ("filter", "operator", "events")
            made = [await keys.create_key(connection, FIRST_TENANT, scope, "test") for scope in scopes]
            if not settings.encryption_keys:
                await connection.execute(SAME_SECRET)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=url, headers=sending(key), timeout=120))
            for key in made
        ]
        of_filter, of_operator, of_events = clients
        yield Service(url, runtime, made[0], made[1], of_filter, of_operator, of_events, app)


@pytest_asyncio.fixture(loop_scope="function")
async def service(settings: Settings) -> AsyncIterator[Service]:
    """A running service."""
    async with serving(settings) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_service(servers: Urls) -> AsyncIterator[Service]:
    """A running service for all tests of a module, which run in its loop: starting one takes longer than most tests."""
    async with fresh_database(servers) as urls, serving(small_window(urls)) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="function")
async def service_with_worker(service: Service) -> AsyncIterator[Service]:
    """A running service with an arq worker in the same process, as `precis serve` has it."""
    runtime = service.runtime
    async with worker_running(runtime.worker_context, runtime.queue, runtime.urls.redis):
        yield service


async def drain(runtime: Runtime, rounds: int = 200) -> None:
    """Does all work that is due now, without a worker."""
    for _ in range(rounds):
        if await compress(runtime.worker_context) is None:
            return
    raise AssertionError(f"work is still due after {rounds} rounds")
