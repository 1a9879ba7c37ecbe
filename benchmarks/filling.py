"""A database as a large installation has it, filled through plain SQL: a mass of small chats, and chats to measure.

In: how many checkpoints, which chats. Out: `Chat`s, whose rows keep every rule of the real ones (each is found by the
hash of all words down to it, and points to the deepest checkpoint above it), at the real schema with all its indexes.
The small chats are mass only: ten checkpoints each, with summaries of some 700 bytes, and two messages per checkpoint.
Real chats have ten or more per checkpoint; the primary key of `messages` is as deep with two.
"""

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

import asyncpg

from benchmarks import stage
from benchmarks.conversation import Message, grown, prose, turns
from service.storage import codec
from service.storage.database import connect
from service.storage.sealing import Cipher
from service.summarising.memory import Memory
from service.text import tokens

EVERY = 10  # messages between two checkpoints of a measured chat
SUMMARY = 800  # tokens of a measured chat's summary
_MASS = (
    """
    insert into chats (id, tenant_id, external_id, user_id, model, window_tokens, leaf_id, leaf_tokens, leaf_line,
                       leaf_savings, leaf_windows)
    select n, $1, 'mass-' || n, 'user-' || n % 5000, 'model', 131072, md5((20 * n)::text), 6000,
           array(select generate_series(10 * n - 9, 10 * n)),
           '{400, 1000, 1600, 2200, 2800, 3400, 4000, 4600, 5200, 5800}', array_fill(131072, '{10}')
    from generate_series(1, ($2::bigint + 9) / 10) n
    """,
    """
    insert into messages (tenant_id, chat_id, message_id, role, depth, host_id, host_hash, confirmed, tokens,
                          path_tokens, step_tokens, step_calls, checkpoint_id)
    select $1, (n - 1) / 20 + 1, md5(n::text), 'user', n % 20 + 1, md5('i' || n)::uuid::text, md5('h' || n), true, 300,
           300 * (n % 20 + 1), '{300}', '{0}', (n - 1) / 2 + 1
    from generate_series(1, 2 * $2::int) n
    """,
    """
    insert into checkpoints (id, tenant_id, chat_id, parent_id, ancestors, covered_until, covered_messages,
                             covered_tokens, savings, windows, kind, memory, summary, tokens, summariser,
                             prompt_version, verdict)
    select n, $1, (n - 1) / 10 + 1, case when (n - 1) % 10 = 0 then 0 else n - 1 end,
           (array[c + 1, c + 2, c + 3, c + 4, c + 5, c + 6, c + 7, c + 8, c + 9])[1:(n - 1) % 10],
           md5((2 * n)::text), 2 * ((n - 1) % 10 + 1), 600 * ((n - 1) % 10 + 1),
           ('{400, 1000, 1600, 2200, 2800, 3400, 4000, 4600, 5200, 5800}'::bigint[])[1:(n - 1) % 10 + 1],
           array_fill(131072, array[(n - 1)::int % 10 + 1]),
           'llm', decode(md5(n::text), 'hex'), decode(repeat(md5(n::text), 22), 'hex'), 200, 'by', '1', '\\x00'
    from generate_series(1, $2::bigint) n cross join lateral (select n - 1 - (n - 1) % 10) first (c)
    """,
)
_CONSTRAINTS = """
    select conrelid::regclass::text as owner, conname as name, pg_get_constraintdef(oid) as definition
    from pg_constraint
    where conrelid in ('messages'::regclass, 'checkpoints'::regclass) and contype in ('f', 'p', 'u')
    order by contype  -- foreign keys come off first, and on last
"""
_INDEXES = """
    select indexname as name, indexdef as definition from pg_indexes
    where schemaname = 'public' and tablename in ('messages', 'checkpoints')
"""
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A chat to measure: so many messages, each counted as `size` tokens, in a model's `window`.

    Each has a text of `text` tokens.
    """

    messages: int
    size: int
    window: int
    text: int = 20


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat to measure. `path` is stored, and the newest checkpoint covers it up to `boundary`."""

    name: str
    path: tuple[Message, ...]
    boundary: Message
    checkpoint: int


async def fill(url: str, tenant: int, checkpoints: int, wanted: Sequence[Wanted]) -> list[Chat]:
    """Fills an empty database up to `checkpoints` checkpoints, makes the wanted chats, and reads the tables once.

    So nothing is read from the disk later.
    """
    rng = random.Random(1)
    mass = checkpoints - sum(_checkpoints(one.messages) for one in wanted)
    async with connect(url) as database:
        cipher = await database.keyring.find_cipher(tenant)
    async with stage.plain(url) as connection:
        async with _without_indexes(connection):
            for statement in _MASS:
                await connection.execute(statement, tenant, mass)
        made = []
        for number, one in enumerate(wanted):
            chat, checkpoint = 10**7 + number, 10**7 + sum(_checkpoints(before.messages) for before in wanted[:number])
            made.append(await _make(connection, cipher, rng, tenant, chat, checkpoint, one))
        await stage.note_leaves(url, tenant, range(10**7, 10**7 + len(wanted)))
        for table in ("chats", "checkpoints"):
            await connection.execute(f"select setval(pg_get_serial_sequence('{table}', 'id'), 20000000)")
        await connection.execute("vacuum analyze")
        await connection.fetch("select sum(length(summary)) from checkpoints")
        await connection.fetch("select sum(length(message_id)) from messages")
    return made


@asynccontextmanager
async def _without_indexes(connection: Connection) -> AsyncIterator[None]:
    """Takes constraints and indexes off the big tables and puts the same ones back: built at once they cost little."""
    await connection.execute("set maintenance_work_mem = '512MB'")
    constraints = await connection.fetch(_CONSTRAINTS)
    for one in constraints:
        await connection.execute(f"alter table {one['owner']} drop constraint {one['name']}")
    indexes = await connection.fetch(_INDEXES)
    for one in indexes:
        await connection.execute(f"drop index {one['name']}")
    yield
    for one in reversed(constraints):
        await connection.execute(f"alter table {one['owner']} add constraint {one['name']} {one['definition']}")
    for one in indexes:
        await connection.execute(one["definition"])


def _checkpoints(messages: int) -> int:
    """The newest messages are the tail."""
    return (messages - 1) // EVERY


async def _make(
    connection: Connection,
    cipher: Cipher,
    rng: random.Random,
    tenant: int,
    chat: int,
    first: int,
    wanted: Wanted,
) -> Chat:
    path = tuple(grown(rng, sizes=turns(wanted.messages // 2, wanted.text, wanted.text)))
    name = f"measured-{chat}"
    await connection.execute(
        "insert into chats (id, tenant_id, external_id, user_id, model, window_tokens, leaf_id)"
        " values ($1, $2, $3, $3, $4, $5, $6)",
        *(chat, tenant, name, stage.MODEL, wanted.window, cipher.keyed_hash(path[-1].node)),
    )
    owner = {"tenant_id": tenant, "chat_id": chat}
    await _copy(connection, "messages", owner, _messages(cipher, first, path, wanted.size))
    await _copy(connection, "checkpoints", owner, _summaries(cipher, rng, first, path, wanted))
    count = _checkpoints(len(path))
    return Chat(name, path, path[count * EVERY - 1], first + count - 1)


def _messages(cipher: Cipher, first: int, path: Sequence[Message], size: int) -> Iterable[dict[str, Any]]:
    above: str | None = None
    for depth, (one, total) in enumerate(zip(path, accumulate(size for _ in path), strict=True), 1):
        made = min(depth // EVERY, _checkpoints(len(path)))
        yield {
            "message_id": cipher.keyed_hash(one.node),
            "parent_id": above,
            "role": one.role,
            "depth": depth,
            "host_id": one.id,
            "confirmed": True,
            "tokens": size,
            "path_tokens": total,
            "step_tokens": [size],
            "step_calls": [0],
            "checkpoint_id": first + made - 1 if made else None,
        }
        above = cipher.keyed_hash(one.node)


def _summaries(
    cipher: Cipher, rng: random.Random, first: int, path: Sequence[Message], wanted: Wanted
) -> Iterable[dict[str, Any]]:
    savings: list[int] = []
    for number in range(_checkpoints(len(path))):
        covered = (number + 1) * EVERY
        summary = stage.summary(prose(rng, SUMMARY), covered)
        savings = [*savings, max([*savings[-1:], covered * wanted.size - tokens.count(summary)])]
        yield {
            "id": first + number,
            "parent_id": first + number - 1 if number else 0,
            "ancestors": list(range(first, first + number)),
            "covered_until": cipher.keyed_hash(path[covered - 1].node),
            "covered_messages": covered,
            "covered_tokens": covered * wanted.size,
            "savings": savings,
            "windows": [wanted.window] * len(savings),
            "kind": "llm",
            "memory": codec.pack_memory(Memory()),
            "summary": codec.pack_text(summary),
            "verdict": codec.pack({}),
            "tokens": tokens.count(summary),
            "summariser": "openai:model",
            "prompt_version": "1",
        }


async def _copy(connection: Connection, table: str, owner: dict[str, int], rows: Iterable[dict[str, Any]]) -> None:
    made = [owner | row for row in rows]
    await connection.copy_records_to_table(
        table, records=[tuple(row.values()) for row in made], columns=list(made[0]) if made else None
    )
