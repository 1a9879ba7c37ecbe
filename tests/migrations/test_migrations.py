"""Migrations against a real PostgreSQL: up, no drift, down, at the same time, and refused when they are missing."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from alembic import command
from sqlalchemy import make_url
from sqlalchemy.dialects.postgresql import dialect

from service.errors import SchemaError, SchemaNewer
from service.runtime import Urls, open_runtime
from service.settings import load
from service.storage.database import check_schema, connect, make_alembic_config, migrate
from service.storage.tables import metadata
from tests.conftest import Service, connected, drop_database, execute

TABLES = {table.name for table in metadata.sorted_tables} | {"alembic_version"}


@pytest_asyncio.fixture(loop_scope="function")
async def empty(servers: Urls) -> AsyncIterator[str]:
    """A database with nothing in it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    await execute(servers.database, f"create database {name}")
    yield make_url(servers.database).set(database=name).render_as_string(hide_password=False)
    await drop_database(servers.database, name)


async def fetch(url: str, query: str) -> list[str]:
    """The first column of a query, as text."""
    async with connected(url) as connection:
        return [str(row[0]) for row in await connection.fetch(query)]


async def names(url: str) -> set[str]:
    return set(await fetch(url, "select tablename from pg_tables where schemaname = 'public'"))


async def test_the_tables_and_the_migrations_say_the_same(empty: str) -> None:
    columns = """
    select attrelid::regclass || '.' || attname || ' ' || format_type(atttypid, atttypmod)
    from pg_attribute join pg_class on pg_class.oid = attrelid and relkind = 'r'
    where relnamespace = 'public'::regnamespace and attnum > 0 and not attisdropped and relname <> 'alembic_version'
    """
    await migrate(empty)

    postgresql = dialect()  # type: ignore[no-untyped-call]
    assert set(await fetch(empty, columns)) == {
        f"{table.name}.{column.name} {column.type.compile(postgresql).lower()}"
        for table in metadata.sorted_tables
        for column in table.columns
    }


async def schema(url: str) -> set[str]:
    """Columns with what they default to, constraints and indexes."""
    columns = """
    select format('%s.%s %s %s %s', table_name, column_name, udt_name, is_nullable, column_default)
    from information_schema.columns where table_schema = 'public'
    """
    constraints = """
    select format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) from pg_constraint
    where connamespace = 'public'::regnamespace
    """
    indexes = "select indexdef from pg_indexes where schemaname = 'public'"
    return {*await fetch(url, columns), *await fetch(url, constraints), *await fetch(url, indexes)}


_FILLED = (
    "insert into tenants (id, name) values (1, 'one')",
    """
    insert into chats (id, tenant_id, external_id, user_id, model, window_tokens, overhead_tokens, beside_tokens,
        leaf_id, leaf_digest, leaf_tokens, leaf_line, leaf_savings, due_at, due_leaves, wants_bodies, title)
    values (1, 1, 'chat', 'ann', 'model', 8192, 700, 100, 'a', 'da', 20, '{1}', '{5}', now(), '{a}', true, '\\x00')
    """,
    "insert into chat_authors (tenant_id, chat_id, user_id) values (1, 1, 'ann')",
    """
    insert into messages (tenant_id, chat_id, message_id, parent_id, role, depth, fingerprint, digest, content_hash,
        tokens, path_tokens, step_tokens, step_calls, checkpoint_id, body)
    values (1, 1, 'u', null, 'user', 1, 'f', 'du', 'c', 10, 10, '{10}', '{0}', null, '\\x00'),
        (1, 1, 'a', 'u', 'assistant', 2, 'f', 'da', 'c', 10, 20, '{10}', '{0}', 1, '\\x00')
    """,
    """
    insert into checkpoints (id, tenant_id, chat_id, parent_id, ancestors, savings, covered_until, covered_digest,
        covered_messages, covered_tokens, kind, memory, summary, tokens, summariser, prompt_version, verdict)
    values (1, 1, 1, 0, '{}', '{5}', 'a', 'da', 2, 20, 'llm', '\\x00', '\\x00', 15, 'by', '1', '\\x00')
    """,
    "insert into runs (tenant_id, chat_id, seq) values (1, 1, 1)",
    "insert into audit (tenant_id, actor, action) values (1, 'cli', 'reset')",
    """
    insert into sums (tenant_id, user_id, day, chat_number, model, tokens_read)
    values (1, 'ann', now(), 1, 'm', 4), (1, 'ben', now(), 2, 'm', 5)
    """,
)
_KEPT = """
select format('%s %s %s', external_id, user_id, title)
    || (select sum(tokens_read) from sums) || (select count(*) from audit) || (select count(*) from chat_authors)
from chats where leaf_id is null and leaf_line is null and due_at is null and due_leaves = '{}'
"""


async def test_a_filled_database_forgets_what_no_request_finds_and_goes_down_again(empty: str) -> None:
    config = make_alembic_config(empty)
    await asyncio.to_thread(command.upgrade, config, "103")
    before = await schema(empty)

    await execute(empty, *_FILLED)
    kept = r"chat ann \x00911"
    await migrate(empty)
    assert await fetch(empty, _KEPT) == [kept]
    assert await fetch(empty, "select message_id from messages") == []
    assert await fetch(empty, "select id from checkpoints union all select id from runs") == []

    fresh = {"body": "'\\x00'", "message_id": "'u'", "role": "'user'", "path_tokens": "10", "depth": "1"}
    fresh |= {"tenant_id": "1", "chat_id": "1", "tokens": "10", "step_tokens": "'{10}'", "step_calls": "'{0}'"}
    await execute(empty, f"insert into messages ({', '.join(fresh)}) values ({', '.join(fresh.values())})")
    await asyncio.to_thread(command.downgrade, config, "103")
    assert await schema(empty) == before
    assert await fetch(empty, _KEPT) == [kept]
    assert await fetch(empty, "select message_id from messages") == []

    await asyncio.to_thread(command.downgrade, config, "base")
    assert await names(empty) == {"alembic_version"}
    await migrate(empty)
    assert await names(empty) == TABLES


@pytest.mark.parametrize("replicas", [2, pytest.param(10, marks=pytest.mark.slow)])
async def test_replicas_that_migrate_at_once_all_succeed(empty: str, replicas: int) -> None:
    script = "import asyncio, sys; from service.storage.database import migrate; asyncio.run(migrate(sys.argv[1]))"
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            script,
            empty,
            cwd=Path(__file__).parents[2],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        for _ in range(replicas)
    ]
    said = await asyncio.gather(*(process.communicate() for process in processes))

    assert [process.returncode for process in processes] == [0] * replicas, said
    assert await names(empty) == TABLES


async def test_a_service_does_not_start_on_a_database_of_a_newer_version(urls: Urls) -> None:
    await execute(urls.database, "update alembic_version set version_num = '9999'")

    with pytest.raises(SchemaNewer, match="is at migration 9999"):
        async with open_runtime(load(database_url=urls.database, redis_url=urls.redis), urls):
            pass


async def test_a_service_that_runs_stays_ready_when_a_newer_version_migrates(service: Service) -> None:
    await execute(service.runtime.urls.database, "update alembic_version set version_num = '9999'")

    state = await service.as_filter.get("/readyz")
    assert (state.status_code, state.json()["status"]) == (200, "ok")
    assert "is at migration 9999" in state.json()["schema"]

    await execute(service.runtime.urls.database, "update alembic_version set version_num = '0027'")
    state = await service.as_filter.get("/readyz")
    assert (state.status_code, state.json()["status"]) == (503, "not ready")


async def test_a_database_from_before_the_first_release_is_refused_with_the_way_out(urls: Urls) -> None:
    await execute(urls.database, "update alembic_version set version_num = '0027'")

    told = r"before 1\.0\.0.*new database.*PRECIS_DATABASE_URL"
    with pytest.raises(SchemaError, match=told):
        await migrate(urls.database)
    async with connect(urls.database) as database:
        with pytest.raises(SchemaError, match=told):
            await check_schema(database.reads)


async def test_rows_of_a_chat_are_tied_to_its_tenant_and_found_by_an_index(urls: Urls) -> None:
    """So neither can be another's, and a deletion leaves nothing, and does not look through all rows."""
    tied = await fetch(
        urls.database,
        "select conrelid::regclass from pg_constraint where contype = 'f' and pg_get_constraintdef(oid)"
        " = 'FOREIGN KEY (tenant_id, chat_id) REFERENCES chats(tenant_id, id) ON DELETE CASCADE'",
    )
    led = await fetch(urls.database, "select tablename from pg_indexes where indexdef like '%USING btree (chat_id%'")

    assert set(tied) & set(led) >= {"messages", "checkpoints", "runs", "chat_authors"}
