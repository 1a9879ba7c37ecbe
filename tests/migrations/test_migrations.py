"""Migrations against a real PostgreSQL: up, no drift, down, at the same time, and refused when they are missing."""

import asyncio
import importlib
import json
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import make_url

from service.errors import SchemaError, SchemaNewer
from service.runtime import Urls, running
from service.settings import load
from service.storage import memories
from service.storage.database import MIGRATIONS, alembic_config, check_schema, connect, migrate
from service.storage.reading import newest
from service.storage.sealing import Seal, Where
from service.storage.tables import metadata
from service.storage.tenancy import ChatKey
from service.summarising.ledger import Detail, Part
from service.summarising.memory import Kind, Paragraph, Pin, Section
from service.summarising.utterances import Speaker
from tests.conftest import Service, drop_database, execute

HEAD = ScriptDirectory(str(MIGRATIONS)).get_current_head()


@pytest_asyncio.fixture(loop_scope="function")
async def empty(servers: Urls) -> AsyncIterator[str]:
    """A database with nothing in it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    await execute(servers.database, f"create database {name}")
    yield make_url(servers.database).set(database=name).render_as_string(hide_password=False)
    await drop_database(servers.database, name)


def test_the_newest_migration_is_known_without_alembic_too() -> None:
    assert newest() == HEAD


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
    await asyncio.to_thread(command.check, alembic_config(empty))


async def test_a_service_refuses_a_database_without_the_schema(empty: str, servers: Urls) -> None:
    with pytest.raises(SchemaError) as refused:
        async with running(load(database_url=empty, redis_url=servers.redis), Urls(empty, servers.redis)):
            pass

    assert f"is at migration none, this version needs {HEAD}" in str(refused.value)
    assert "precis migrate" in str(refused.value)


async def test_a_service_does_not_start_on_a_database_of_a_newer_version(urls: Urls) -> None:
    await execute(urls.database, "update alembic_version set version_num = '9999'")

    with pytest.raises(SchemaNewer, match="is at migration 9999"):
        async with running(load(database_url=urls.database, redis_url=urls.redis), urls):
            pass


async def test_a_service_that_runs_stays_ready_when_a_newer_version_migrates(service: Service) -> None:
    await execute(service.runtime.urls.database, "update alembic_version set version_num = '9999'")

    state = await service.as_filter.get("/readyz")
    assert (state.status_code, state.json()["status"]) == (200, "ok")
    assert "is at migration 9999" in state.json()["schema"]

    await execute(service.runtime.urls.database, "update alembic_version set version_num = '0001'")
    state = await service.as_filter.get("/readyz")
    assert (state.status_code, state.json()["status"]) == (503, "not ready")


async def test_an_older_version_does_not_migrate_the_database_of_a_newer_one(urls: Urls) -> None:
    await execute(urls.database, "update alembic_version set version_num = '9999'")

    with pytest.raises(SchemaError, match="Was it migrated by a newer Precis"):
        await migrate(urls.database)


def test_every_migration_can_be_undone_and_says_what_it_does() -> None:
    for revision in ScriptDirectory(str(MIGRATIONS)).walk_revisions():
        assert revision.doc
        assert "pass" not in Path(revision.path).read_text().split("def downgrade")[1].split()


# Rows written before a migration


Rows = dict[str, list[dict[str, Any]]]

_OF_A_CHAT = ("messages", "checkpoints", "drafts", "runs")
_AT_0001 = """
insert into tenants (name) values ('one'), ('two');
insert into chats (tenant_id, external_id, user_id, model, window_tokens)
    select id, 'chat-' || number, 'user', 'model', 8192 from tenants, generate_series(1, 2) number;
insert into messages (chat_id, message_id, role, depth, fingerprint, digest, content_hash, tokens, path_tokens,
                      step_tokens, body)
    select id, 'm' || depth, 'user', depth, 'f', 'd' || depth, '\\x00', 5, 5 * depth, '{5}', '\\x01ff'
    from chats, generate_series(1, 3) depth;
insert into checkpoints (chat_id, parent_id, ancestors, covered_until, covered_digest, covered_messages, covered_tokens,
                         kind, narrative, ledger, summary, tokens, summariser, prompt_version)
    select id, 0, '{}', 'm2', 'd2', 2, 10, 'llm',
           E'## Goal\\n- narrative of ' || id, '[]', 'summary', 3, 'by', '1' from chats;
insert into drafts (chat_id, base_id, message_id, digest, step, piece, pieces, narrative, ledger)
    select id, 0, 'm3', 'd3', 0, 1, 2, E'## Goal\\n- half of ' || id, '[]' from chats;
insert into runs (chat_id, seq, outcome) select id, 1, 'done' from chats;
"""


async def fetch(url: str, query: str) -> list[str]:
    """The first column of a query, as text."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        return [str(row[0]) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def rows(url: str, like: Rows | None = None) -> Rows:
    """All rows of all chats; with `like`, only the columns that those rows had."""
    found = {}
    for table in ("chats", *_OF_A_CHAT):
        stored = [json.loads(row) for row in await fetch(url, f"select to_jsonb(t) from {table} t")]
        columns = like[table][0].keys() if like and like[table] else None
        cut = [row if columns is None else {name: row[name] for name in columns if name in row} for row in stored]
        found[table] = sorted(cut, key=str)
    return found


def _without_narrative(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The one column that is gone: it is `sections` now."""
    return sorted(({name: row[name] for name in row if name != "narrative"} for row in some), key=str)


@pytest_asyncio.fixture(loop_scope="function")
async def filled(empty: str) -> str:
    """A database of the first release, with two chats of two tenants each."""
    await migrate(empty, "0001")
    await execute(empty, _AT_0001)
    return empty


async def test_rows_survive_the_way_to_the_newest_schema_and_back(filled: str) -> None:
    before = await rows(filled)
    assert all(before.values())

    await migrate(filled)
    assert await rows(filled, like=before) == {table: _without_narrative(of_it) for table, of_it in before.items()}

    await asyncio.to_thread(command.downgrade, alembic_config(filled), "0001")
    assert await rows(filled) == before
    await execute(filled, "delete from chats")
    assert not any((await rows(filled)).values())


async def test_every_row_gets_the_tenant_of_its_chat(filled: str) -> None:
    await migrate(filled)

    for table in _OF_A_CHAT:
        same = f"select count(*) from {table} t join chats on chats.id = chat_id and chats.tenant_id = t.tenant_id"
        assert await fetch(filled, same) == await fetch(filled, f"select count(*) from {table}")


@pytest.mark.parametrize("table", _OF_A_CHAT)
async def test_a_row_cannot_name_another_tenant_than_its_chats_and_goes_with_the_chat(filled: str, table: str) -> None:
    await migrate(filled)

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await execute(filled, f"update {table} set tenant_id = 3 - tenant_id")
    with pytest.raises(asyncpg.NotNullViolationError):
        await execute(filled, f"update {table} set tenant_id = null")

    await execute(filled, "delete from chats where tenant_id = 1")
    assert set(await fetch(filled, f"select tenant_id from {table}")) == {"2"}


# Each is (id, parent, ancestors, covered messages, covered tokens, its own tokens): a line whose third saves less than
# its second, a branch of it from the first, and one alone in another chat.
_LINES = [
    ("chat-1", 1, 0, "{}", 2, 1000, 400, [600]),
    ("chat-1", 2, 1, "{1}", 4, 3000, 500, [600, 2500]),
    ("chat-1", 3, 2, "{1,2}", 6, 4000, 1900, [600, 2500, 2500]),
    ("chat-1", 4, 3, "{1,2,3}", 8, 6000, 900, [600, 2500, 2500, 5100]),
    ("chat-1", 5, 1, "{1}", 5, 1500, 1400, [600, 600]),
    ("chat-1", 6, 5, "{1,5}", 9, 5000, 800, [600, 600, 4200]),
    ("chat-2", 7, 0, "{}", 3, 900, 950, [-50]),
]


async def test_checkpoints_made_before_0003_say_what_each_of_their_line_saves(empty: str) -> None:
    await migrate(empty, "0002")
    await execute(empty, "insert into tenants (name) values ('one')")
    for chat in ("chat-1", "chat-2"):
        await execute(
            empty,
            "insert into chats (tenant_id, external_id, user_id, model, window_tokens)"
            f" select id, '{chat}', 'user', 'model', 8192 from tenants",
        )
    for chat, identity, parent, ancestors, depth, covered, size, _ in _LINES:
        await execute(
            empty,
            "insert into checkpoints (id, tenant_id, chat_id, parent_id, ancestors, covered_until, covered_digest,"
            " covered_messages, covered_tokens, kind, narrative, ledger, summary, tokens, summariser, prompt_version)"
            f" overriding system value select {identity}, tenant_id, id, {parent}, '{ancestors}', 'm{depth}',"
            f" 'd{identity}', {depth}, {covered}, 'llm', '', '[]', '', {size}, 'by', '1'"
            f" from chats where external_id = '{chat}'",
        )

    await migrate(empty)

    found = await fetch(empty, "select savings from checkpoints order by id")
    assert found == [str(savings) for *_, savings in _LINES]


# (id, parent, ancestors, digest, version, kind, retired): a summary with three versions, of which the corrected one
# serves with one that grew from it, and one that grew from the first version.
_VERSIONS = [
    (1, 0, "{}", "d2", 1, "llm", False),
    (2, 1, "{1}", "d4", 1, "degraded", True),
    (3, 2, "{1,2}", "d6", 1, "llm", True),
    (4, 1, "{1}", "d4", 2, "corrected", True),
    (5, 1, "{1}", "d4", 3, "corrected", False),
    (6, 5, "{1,5}", "d6", 1, "llm", False),
]


@pytest.mark.parametrize("leads_to", [6, 3], ids=["what serves", "a line of an older version"])
async def test_of_several_versions_the_one_that_serves_is_left_on_the_way_back(empty: str, leads_to: int) -> None:
    await migrate(empty)
    chat = "insert into chats (tenant_id, external_id, user_id, model, window_tokens, leaf_id)"
    await execute(
        empty,
        "insert into tenants (name) values ('one')",
        f"{chat} select id, 'chat-1', 'user', 'model', 8192, 'm7' from tenants",
        "insert into messages (tenant_id, chat_id, message_id, role, depth, fingerprint, digest, content_hash, tokens,"
        " path_tokens, step_tokens, checkpoint_id)"
        f" select tenant_id, id, 'm7', 'user', 7, 'f', 'd7', '', 5, 35, '{{5}}', {leads_to} from chats",
    )
    for identity, parent, ancestors, digest, version, kind, retired in _VERSIONS:
        savings = [10 * (place + 1) for place in range(ancestors.count(",") + 1 + bool(parent))]
        await execute(
            empty,
            "insert into checkpoints (id, tenant_id, chat_id, parent_id, ancestors, savings, covered_until,"
            " covered_digest, covered_messages, covered_tokens, version, kind, ledger, summary, tokens,"
            " summariser, prompt_version, retired_at) overriding system value"
            f" select {identity}, tenant_id, id, {parent}, '{ancestors}', array{savings}::bigint[], 'm',"
            f" '{digest}', 2, 10, {version}, '{kind}', '[]', '', 3, 'by', '1',"
            f" {'now()' if retired else 'null'} from chats",
        )

    await asyncio.to_thread(command.downgrade, alembic_config(empty), "0006")

    assert await fetch(empty, "select id from checkpoints order by id") == ["1", "5", "6"]
    assert set(await fetch(empty, "select kind from checkpoints")) == {"llm"}
    deepest = 6 if leads_to == 6 else 1
    assert await fetch(empty, "select checkpoint_id from messages") == [str(deepest)]
    assert await fetch(empty, "select leaf_line from chats") == [str([1, 5, 6] if deepest == 6 else [1])]
    await migrate(empty)


_NARRATIVE = """## Goal
- Keep the pumps at 4 bar.
- And cool.

## Current state
- P-7's \\n is "off"."""
_PINS = [
    {"number": 2, "kind": "constraint", "text": "Never above 4 bar.", "source": "u1", "role": "user",
     "replaced_by": None, "amended_by": 5},
    {"number": 5, "kind": "value", "text": "P-7 is at 3 bar.", "source": "a1", "role": "assistant",
     "replaced_by": 7, "amended_by": None},
    {"number": 7, "kind": "fact", "text": "Somebody wrote this.", "source": "u2", "role": "pasted",
     "replaced_by": None, "amended_by": None},
]  # fmt: skip
_LEDGER = [
    {"first": 1, "last": 3, "tool": "look_up", "arguments": "", "outcome": "3 rows", "failed": False,
     "comment": "so what", "count": 3, "details": ["first: a, 1", "12 lines: b"], "short": []},
]  # fmt: skip


async def _old_memories(url: str, count: int) -> None:
    """So many checkpoints of the release before 0008, and a draft, in one chat."""
    await migrate(url, "0007")
    said = ", ".join(f"$${json.dumps(part)}$$::jsonb" for part in (_PINS, _LEDGER))
    narrative = f"$${_NARRATIVE}$$"
    await execute(
        url,
        "insert into tenants (name) values ('one')",
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens)"
        " select id, 'chat-1', 'user', 'model', 8192 from tenants",
        "insert into checkpoints (tenant_id, chat_id, parent_id, ancestors, savings, covered_until, covered_digest,"
        " covered_messages, covered_tokens, kind, narrative, pins, ledger, summary, tokens, summariser,"
        " prompt_version) select tenant_id, id, number, '{}', '{9}', 'm', 'd' || number, 2, 10, 'llm',"
        f" {narrative}, {said}, 'as it was ' || number, 3, 'by', '1'"
        f" from chats, generate_series(0, {count - 1}) number",
        "insert into drafts (tenant_id, chat_id, base_id, message_id, digest, step, piece, pieces, narrative, pins,"
        f" ledger) select tenant_id, id, 0, 'm3', 'd3', 0, 1, 2, {narrative}, {said} from chats",
    )


async def test_old_memories_are_typed_and_their_summaries_stay_as_they_are(empty: str) -> None:
    await _old_memories(empty, 3)
    summaries = await fetch(empty, "select summary from checkpoints order by id")

    await migrate(empty)

    assert await fetch(empty, "select summary from checkpoints order by id") == summaries
    assert set(await fetch(empty, "select rules || record from checkpoints")) == {""}
    for table in ("checkpoints", "drafts"):
        (row, *others) = [
            memories.memory_of(json.loads(one), Seal({}, None, None), Where(table, "", ChatKey(1, 1)))
            for one in await fetch(empty, f"select to_jsonb(t) from {table} t")
        ]
        assert all(one == row for one in others)
        assert row.narrative == (
            Paragraph(Section.GOAL, ("Keep the pumps at 4 bar.", "And cool.")),
            Paragraph(Section.STATE, ('P-7\'s \\n is "off".',)),
        )
        assert row.pins == (
            Pin(2, Kind.CONSTRAINT, "Never above 4 bar.", "u1"),
            Pin(5, Kind.VALUE, "P-7 is at 3 bar.", "a1", Speaker.ASSISTANT, replaced_by=7),
            Pin(7, Kind.FACT, "Somebody wrote this.", "u2"),
        )
        assert (row.talk, row.heard) == ((), 0)
        (entry,) = row.ledger
        assert (entry.first, entry.last, entry.tool, entry.outcome, entry.count) == (1, 3, "look_up", "3 rows", 3)
        assert entry.details == (Detail(Part.FIRST, "a, 1"), Detail(Part.NOTE, "12 lines: b"))


async def test_a_memory_that_was_typed_is_read_by_the_release_before(empty: str) -> None:
    await _old_memories(empty, 2)
    before = await rows(empty)
    await migrate(empty)

    await asyncio.to_thread(command.downgrade, alembic_config(empty), "0007")

    after = await rows(empty)
    for table in ("checkpoints", "drafts"):
        for old, new in zip(before[table], after[table], strict=True):
            roles = [pin["role"] for pin in new.pop("pins")]
            assert roles == ["user", "assistant", "user"]
            assert new == {name: old[name] for name in old if name != "pins"}


async def test_more_rows_than_one_batch_are_all_converted(empty: str) -> None:
    await _old_memories(empty, 1201)

    await migrate(empty)
    typed = "select count(*) from checkpoints where jsonb_array_length(sections) = 2 and pins -> 0 ? 'speaker'"
    assert await fetch(empty, typed) == ["1201"]

    await asyncio.to_thread(command.downgrade, alembic_config(empty), "0007")
    assert await fetch(empty, "select count(distinct narrative) from checkpoints") == ["1"]


def test_markdown_of_any_form_is_read_under_its_heads() -> None:
    module = importlib.import_module("migrations.versions.0008_memories_are_typed")

    assert module._sections("") == []
    assert module._sections("It goes on.\n\n# goal:\n- Go.\n### Other\n- x") == [
        {"section": "Goal", "lines": ["Go.", "### Other", "x"]},
        {"section": "Current state", "lines": ["It goes on."]},
    ]
