"""Chats with summaries, grown once: the first test that needs one has the service make it, the others get its rows.

In: a chat without messages, and the bench that works on it. Out: its leaf; the `Talk` has its messages.
"""

from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from service.storage.tables import metadata
from service.usecases.compress import WorkerContext, compress
from tests.conftest import Service
from tests.service.harness import Harness, Numbered
from tests.service.talk import Json, Talk, rows, run_sql

OWN = ["chats", *(table.name for table in metadata.sorted_tables if "chat_id" in table.c)]
NUMBERED = [table.name for table in metadata.sorted_tables if table.name in OWN and "id" in table.c]


@dataclass(frozen=True)
class Grown:
    """A chat's leaf and messages, and its rows as PostgreSQL copies them, by table."""

    leaf: str
    messages: dict[str, Json]
    stored: dict[str, bytes]


_grown: dict[tuple[object, ...], Grown] = {}


async def summarised(service: Service, talk: Talk, turns: int = 20, least: int = 1) -> str:
    """A chat of so many turns, and then more until code has made `least` summaries of it, in a line; nothing is due."""
    return await _once(service, talk, service.runtime.worker_context, turns, least)


async def by_the_model(harness: Harness, turns: int = 20, **sizes: Any) -> str:
    """A chat of so many turns whose summaries are the model's; nothing is due, and the model was asked nothing yet."""
    leaf = await _once(harness.service, harness.talk, harness.worker_context(**sizes), turns, 1, *sizes.items())
    harness.llm.requests.clear()
    harness.llm.default = Numbered()
    return leaf


async def in_one_call(harness: Harness) -> str:
    """A chat with one summary of the model's."""
    return await by_the_model(harness, summariser_window=32_768)


async def _once(
    service: Service, talk: Talk, worker_context: WorkerContext, turns: int, least: int, *more: object
) -> str:
    assert not talk.rows
    key = (talk.chat, talk.user, talk.model, worker_context.by, turns, least, *more)
    if key not in _grown:
        leaf = await _grow(service, talk, worker_context, turns, least)
        _grown[key] = Grown(leaf, deepcopy(talk.rows), await _copied(service))
        return leaf
    found = _grown[key]
    talk.rows.update(deepcopy(found.messages))
    await _put(service, found.stored)
    return found.leaf


async def _grow(service: Service, talk: Talk, worker_context: WorkerContext, turns: int, least: int) -> str:
    leaf = talk.turns(turns)
    await talk.ingest(leaf)
    while True:
        while await compress(worker_context):
            pass
        if len(await rows(service.runtime, "select 1 from checkpoints")) >= least:
            return leaf
        leaf = talk.turns(2, leaf=leaf)
        await talk.ingest(leaf)


async def _copied(service: Service) -> dict[str, bytes]:
    stored: dict[str, bytes] = {}
    async with service.runtime.database.reads.acquire() as connection, connection.transaction():
        for name in OWN:
            into = BytesIO()
            await connection.copy_from_table(name, output=into, format="binary")
            stored[name] = into.getvalue()
    return stored


async def _put(service: Service, stored: dict[str, bytes]) -> None:
    async with service.runtime.database.reads.acquire() as connection, connection.transaction():
        for name, data in stored.items():
            await connection.copy_to_table(name, source=BytesIO(data), format="binary")
    # What is made next goes on behind what was copied.
    for name in NUMBERED:
        sequence = f"pg_get_serial_sequence('{name}', 'id')"
        await run_sql(service.runtime, f"select setval({sequence}, coalesce(max(id), 1)) from {name}")
