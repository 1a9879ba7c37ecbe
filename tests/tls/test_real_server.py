"""A migration, a service, a backup and a restore on a PostgreSQL that speaks TLS, as the URL wants it."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from service.embedded import dumps, postgres, process
from service.embedded.account import choose_account, give
from service.embedded.urls import CLUSTER
from service.runtime import Urls
from service.storage import database
from tests.conftest import connected, serving, small_window
from tests.folders import temporary_folder
from tests.service.talk import Talk
from tests.tls.authority import Authority
from tests.waiting import until

SERVER = max(Path("/usr/lib/postgresql").glob("*/bin/postgres"), default=None)  # the package's own has no OpenSSL
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SERVER is None, reason="needs Debian's postgresql"),
]


@pytest_asyncio.fixture
async def secured() -> AsyncIterator[str]:
    """The URL of a PostgreSQL with TLS."""
    assert SERVER
    with temporary_folder() as folder:
        data = folder / CLUSTER
        account = choose_account(data)
        authority = Authority(folder, "authority")
        certificate, key = authority.signed("localhost")
        give(key, account)
        program = process.Program("PostgreSQL", SERVER, account, postgres.STOP)
        async with postgres.serve_postgres(program, folder, fast=True) as (server, plain):
            with (data / "postgresql.conf").open("a") as file:
                file.write(f"ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n")
            os.kill(server.process.pid, signal.SIGHUP)
            url = plain.replace("127.0.0.1", "localhost")

            async def speaks_tls() -> bool:
                async with connected(url) as connection:
                    return bool(await connection.fetchval("show ssl") == "on")

            await until(speaks_tls)
            yield f"{url}?sslmode=verify-full&sslrootcert={authority.certificate}"


async def test_every_connection_goes_by_tls_and_a_dump_too(secured: str, servers: Urls, tmp_path: Path) -> None:
    await database.migrate(secured)
    async with serving(small_window(Urls(secured, servers.redis))) as service:
        talk = Talk(service.as_filter)
        leaf = talk.turns(3)
        await talk.ingest(leaf)
        before = await talk.ask(leaf)
        async with connected(secured) as connection:
            sessions = await connection.fetch(
                "select application_name as name, ssl from pg_stat_ssl join pg_stat_activity using (pid)"
                " where datname = current_database()"
            )
        assert {session["name"] for session in sessions} >= {"precis", "precis-reads"}
        assert all(session["ssl"] for session in sessions)

        await dumps.dump(secured, tmp_path / "precis.dump")
        assert (await service.as_operator.delete("/v1/chats/chat-1")).is_success
        assert await talk.ask(leaf) != before
    await dumps.load(secured, tmp_path / "precis.dump")
    async with serving(small_window(Urls(secured, servers.redis))) as service:
        talk = Talk(service.as_filter)
        talk.turns(3)
        assert await talk.ask(leaf) == before
