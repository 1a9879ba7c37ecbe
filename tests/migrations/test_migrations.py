"""Migrations against a real PostgreSQL: up, no drift, down, at the same time, and refused when they are missing."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import make_url

from service.errors import SchemaError
from service.runtime import Urls, running
from service.settings import load
from service.storage.database import MIGRATIONS, alembic_config, check_schema, connect, migrate
from service.storage.tables import metadata
from tests.conftest import execute

HEAD = ScriptDirectory(str(MIGRATIONS)).get_current_head()


@pytest_asyncio.fixture(loop_scope="function")
async def empty(servers: Urls) -> AsyncIterator[str]:
    """A database with nothing in it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    await execute(servers.database, f"create database {name}")
    yield make_url(servers.database).set(database=name).render_as_string(hide_password=False)
    await execute(servers.database, f"drop database {name} with (force)")


async def names(url: str) -> set[str]:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        found = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
    finally:
        await connection.close()
    return {row["tablename"] for row in found}


async def test_an_empty_database_is_brought_to_the_newest_schema(empty: str) -> None:
    await migrate(empty)

    assert await names(empty) == {table.name for table in metadata.sorted_tables} | {"alembic_version"}
    async with connect(empty) as database:
        await check_schema(database.engine)


async def test_migrating_twice_changes_nothing(empty: str) -> None:
    await migrate(empty)
    await migrate(empty)

    async with connect(empty) as database:
        await check_schema(database.engine)


async def test_the_tables_and_the_migrations_say_the_same(empty: str) -> None:
    await migrate(empty)

    await asyncio.to_thread(command.check, alembic_config(empty))  # raises where they differ


async def test_down_to_nothing_and_up_again(empty: str) -> None:
    await migrate(empty)

    await asyncio.to_thread(command.downgrade, alembic_config(empty), "base")
    assert await names(empty) == {"alembic_version"}

    await migrate(empty)
    await asyncio.to_thread(command.check, alembic_config(empty))


async def test_two_processes_that_migrate_at_once_both_succeed(empty: str) -> None:
    environment = os.environ | {"PRECIS_DATABASE_URL": empty, "PRECIS_REDIS_URL": "redis://127.0.0.1:1/0"}
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from service.cli import app; app()",
            "migrate",
            env=environment,
            cwd=Path(__file__).parents[2],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        for _ in range(2)
    ]
    said = await asyncio.gather(*(process.communicate() for process in processes))

    assert [process.returncode for process in processes] == [0, 0], said
    await asyncio.to_thread(command.check, alembic_config(empty))


async def test_a_service_refuses_a_database_without_the_schema(empty: str, servers: Urls) -> None:
    with pytest.raises(SchemaError) as refused:
        async with running(load(database_url=empty, redis_url=servers.redis), Urls(empty, servers.redis)):
            pass

    assert f"is at migration none, this version needs {HEAD}" in str(refused.value)
    assert "precis migrate" in str(refused.value)


async def test_a_service_refuses_a_database_of_another_version(urls: Urls) -> None:
    await execute(urls.database, "update alembic_version set version_num = '9999'")

    with pytest.raises(SchemaError, match="is at migration 9999"):
        async with running(load(database_url=urls.database, redis_url=urls.redis), urls):
            pass


def test_every_migration_can_be_undone_and_says_what_it_does() -> None:
    for revision in ScriptDirectory(str(MIGRATIONS)).walk_revisions():
        assert revision.doc
        assert "pass" not in Path(revision.path).read_text().split("def downgrade")[1].split()
