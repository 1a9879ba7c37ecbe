"""A whole Precis on a PostgreSQL and a Redis that speak TLS only: every way there checks who answers."""

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from arq.worker import create_worker
from click.testing import CliRunner, Result
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import RedisError
from structlog.testing import capture_logs

from service import tls
from service.cli import app
from service.errors import ConfigurationError
from service.queue import Queue
from service.runtime import Runtime, Urls, running
from service.settings import load
from service.storage import database
from tests.conftest import TEXTS, serving, small_window
from tests.service.talk import Talk, rows
from tests.tls import servers as real
from tests.tls.servers import GUARDED, TlsServers
from tests.waiting import until
from workers import settings as of_arq
from workers.worker import running as worker_running

POSTGRES, REDIS = real.postgres_program(), real.redis_program()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        POSTGRES is None or REDIS is None,
        reason="needs a PostgreSQL and a Redis with OpenSSL (Debian: apt-get install postgresql redis-server)",
    ),
    pytest.mark.asyncio(loop_scope="module"),
]


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="precis-tls-"))
    folder.chmod(0o711)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def near() -> AsyncIterator[TlsServers]:
    """Both servers; as root, they run as another user who cannot get into pytest's own folders."""
    assert POSTGRES
    assert REDIS
    folder = _folder()
    try:
        async with real.tls_servers(POSTGRES, REDIS, folder) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def full(near: TlsServers, **more: str) -> str:
    return near.database(f"?sslmode=verify-full&sslrootcert={near.authority}", **more)


def queue(near: TlsServers, **more: str) -> str:
    return near.queue(f"?ssl_ca_certs={near.authority}", **more)


async def statement(url: str, sql: str) -> None:
    reached = tls.postgres(url)
    connection = await asyncpg.connect(reached.url, ssl=reached.of_driver)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@asynccontextmanager
async def made(near: TlsServers) -> AsyncIterator[str]:
    """The name of a new, empty database."""
    name = f"tls_{uuid.uuid4().hex[:12]}"
    await statement(full(near), f"create database {name}")
    yield name
    await statement(full(near), f"drop database {name}")


async def command(database_url: str, redis_url: str, *words: str) -> Result:
    urls = {"PRECIS_DATABASE_URL": database_url, "PRECIS_REDIS_URL": redis_url}
    return await asyncio.to_thread(CliRunner().invoke, app, words, env=urls)


async def without_tls(runtime: Runtime) -> tuple[int, int]:
    """How many connections of ours there are, and how many of them are plain."""
    (found,) = await rows(
        runtime,
        "select count(*) as all, count(*) filter (where not ssl) as plain"
        " from pg_stat_ssl join pg_stat_activity using (pid) where datname = current_database()",
    )
    return found.all, found.plain


async def test_a_service_and_a_worker_migrate_summarise_and_serve_by_tls_alone(
    near: TlsServers, tmp_path: Path
) -> None:
    async with made(near) as name:
        urls = Urls(full(near, name=name), queue(near))
        migrated = await command(urls.database, urls.redis, "migrate")
        assert migrated.exit_code == 0, migrated.output
        settings = small_window(urls)
        async with (
            serving(settings) as service,
            worker_running(service.runtime.worker_context, service.runtime.queue, urls.redis),
        ):
            talk = Talk(service.as_filter)
            leaf = talk.turns(14)
            assert await talk.ingest(leaf)

            async def ready() -> bool:
                return bool((await talk.ask(leaf))["status"] == "ready")

            await until(ready)
            before = await talk.ask(leaf)
            ours, plain = await without_tls(service.runtime)
            assert ours >= 2
            assert plain == 0
            assert (await service.as_filter.get("/readyz")).json() == {
                "status": "ok",
                "database": "ok",
                "schema": "ok",
                "queue": "ok",
            }
            seen = (await service.as_operator.get("/v1/status")).json()
            assert [one["role"] for one in seen["alive"]] == ["api", "worker"]

            file = tmp_path / "precis.dump"
            written = await command(urls.database, urls.redis, "backup", str(file))
            assert written.exit_code == 0, written.output
            assert (await service.as_operator.delete("/v1/chats/chat-1")).is_success
            restored = await command(urls.database, urls.redis, "restore", str(file), "--yes")
            assert restored.exit_code == 0, restored.output
            assert await talk.ask(leaf) == before


async def test_of_a_database_by_url_the_log_says_that_no_dump_is_made_also_by_tls(near: TlsServers) -> None:
    async with made(near) as name:
        url = full(near, name=name)
        await database.migrate(url, "0020")
        with capture_logs() as logs:
            done = await command(url, queue(near), "migrate")
        assert done.exit_code == 0, done.output
        assert "migration.without_dump" in [line["event"] for line in logs]


async def test_a_client_shows_a_certificate_of_its_own(near: TlsServers, tmp_path: Path) -> None:
    await statement(full(near), f"create database {GUARDED}")
    bare = full(near, name=GUARDED)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        await database.migrate(bare)
    own = f"{bare}&sslcert={near.own.certificate}&sslkey={near.own.key}"
    await database.migrate(own)
    written = await command(own, queue(near), "backup", str(tmp_path / "precis.dump"))
    assert written.exit_code == 0, written.output
    assert "FATAL" in (await command(bare, queue(near), "backup", str(tmp_path / "other.dump"))).stderr

    certified = f"{queue(near)}&ssl_certfile={near.own.certificate}&ssl_keyfile={near.own.key}"
    await demand(certified, "yes")
    try:
        # By TLS 1.3 a server says so after the handshake, and may close before anybody has read it.
        with pytest.raises((ConfigurationError, RedisError, TimeoutError)):
            await ping(queue(near))
        await ping(certified)
    finally:
        await demand(certified, "no")


async def ping(url: str) -> None:
    opened = await Queue.connect(url)
    try:
        await opened.ping()
    finally:
        await opened.close()


async def demand(url: str, certificates: str) -> None:
    opened = await Queue.connect(url)
    await opened._redis.config_set("tls-auth-clients", certificates)
    await opened.close()


COMMANDS = {
    "migrate": ("migrate",),
    "keys": ("keys", "create", "--first"),
    "retention": ("retention",),
    "backup": ("backup", "{folder}/precis.dump"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
async def test_each_command_refuses_a_database_that_is_not_who_it_should_be(
    near: TlsServers, tmp_path: Path, words: tuple[str, ...]
) -> None:
    told = [word.format(folder=tmp_path) for word in words]
    wrong_authority = near.database(f"?sslmode=verify-full&sslrootcert={near.other_authority}")
    refused = await command(wrong_authority, queue(near), *told)
    assert refused.exit_code == 1
    assert f"PostgreSQL at localhost:{near.postgres_port} has a certificate that is not trusted: " in refused.stderr
    assert "with sslrootcert in PRECIS_DATABASE_URL" in refused.stderr

    refused = await command(full(near, host="127.0.0.1"), queue(near), *told)
    assert refused.exit_code == 1
    assert f"PostgreSQL at 127.0.0.1:{near.postgres_port} has a certificate of another name: " in refused.stderr
    assert near.postgres_password not in refused.stderr

    assert (await command(near.database("?sslmode=disable"), queue(near), *told)).exit_code == 1
    assert os.listdir(tmp_path) == []


async def test_a_restore_refuses_a_database_that_is_not_who_it_should_be(near: TlsServers, tmp_path: Path) -> None:
    async with made(near) as name:
        url, file = full(near, name=name), tmp_path / "precis.dump"
        await database.migrate(url)
        assert (await command(url, queue(near), "backup", str(file))).exit_code == 0
        wrong = near.database(f"?sslmode=verify-full&sslrootcert={near.other_authority}", name=name)
        refused = await command(wrong, queue(near), "restore", str(file), "--yes")
        assert refused.exit_code == 1
        assert "has a certificate that is not trusted" in refused.stderr


async def test_a_service_and_a_worker_refuse_a_redis_that_is_not_who_it_should_be(near: TlsServers) -> None:
    at = rf"Redis at (localhost|127\.0\.0\.1):{near.redis_port} "
    wrong = {
        near.queue(f"?ssl_ca_certs={near.other_authority}"): at + "has a certificate that is not trusted",
        near.queue(""): at + "has a certificate that is not trusted",
        queue(near, host="127.0.0.1"): at + "has a certificate of another name",
    }
    async with made(near) as name:
        url = full(near, name=name)
        await database.migrate(url)
        for redis_url, says in wrong.items():
            urls = Urls(url, redis_url)
            settings = load(database_url=urls.database, redis_url=urls.redis)
            with pytest.raises(ConfigurationError, match=says):  # what `precis serve` and `precis worker` open
                async with running(settings, urls, TEXTS):
                    pass


async def test_neither_server_can_be_reached_without_tls(near: TlsServers) -> None:
    with pytest.raises(ConfigurationError, match="no encryption"):
        await database.migrate(near.database("?sslmode=disable"))
    async with Redis.from_url(near.queue("", scheme="redis")) as plain:
        with pytest.raises(RedisAway):
            await plain.ping()


async def test_arqs_own_command_asks_for_the_name_too(near: TlsServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECIS_DATABASE_URL", full(near))
    monkeypatch.setenv("PRECIS_REDIS_URL", queue(near))
    # As `arq workers.settings.WorkerSettings` makes it.
    worker = create_worker({**of_arq.WorkerSettings, "handle_signals": False, "burst": True})
    assert await worker.pool.ping()
    await worker.pool.aclose()


async def test_a_server_without_tls_is_refused_where_the_url_wants_it(near: TlsServers, servers: Urls) -> None:
    plain = servers.database.partition("+asyncpg")[2]
    wanted = f"postgresql{plain}?sslmode=verify-full&sslrootcert={near.authority}"
    with pytest.raises(ConfigurationError, match="rejected SSL upgrade"):
        await database.migrate(wanted)
    refused = await command(wanted, queue(near), "backup", "/tmp/never-written.dump")
    assert "it does not speak TLS" in refused.stderr
