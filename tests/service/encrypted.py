"""Services whose stored texts are sealed, a chat with a row of every kind, and what anybody finds in the tables."""

import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import httpx
import zstandard
from sqlalchemy import make_url

from service.runtime import Urls
from service.settings import load
from tests.conftest import Service, serving
from tests.constants import NEVER
from tests.fakes.scripted_llm import Fail, Say, scripted_llm
from tests.service.harness import Harness
from tests.service.recalling import recall
from tests.service.talk import Talk, run_sql

FIRST = "1:" + base64.b64encode(b"1" * 32).decode()
SECOND = "2:" + base64.b64encode(b"2" * 32).decode()
MARK = "zyxomark"
WRITTEN = Say(f"## State\n- The {MARK} pump is watched.\n- The {MARK} pump costs 31,337 EUR.")


@asynccontextmanager
async def service_with(urls: Urls, keys: str) -> AsyncIterator[Harness]:
    """A service with these encryption keys, and a model beside it."""
    settings = load(database_url=urls.database, redis_url=urls.redis, window=8192, encryption_keys=keys)
    async with serving(settings) as service, scripted_llm(WRITTEN) as llm, httpx.AsyncClient() as http:
        yield Harness(service, Talk(service.as_filter), llm, http)


async def lived(harness: Harness) -> str:
    """A chat with everything that is made from texts, all of it marked. Returns its leaf."""
    talk = harness.talk
    first = talk.add("marked", None, content=f"Never sell the {MARK} pump.")
    leaf = talk.turns(12, leaf=talk.add("answer", first, "assistant", f"The {MARK} pump is watched."))
    assert await talk.ingest(leaf)
    await harness.compress()
    deepest = (await harness.service.as_operator.get("/v1/chats/chat-1")).json()["checkpoints"][-1]["id"]
    await harness.service.as_operator.post("/v1/chats/chat-1/reset", json={"keep": deepest})
    said = {"state": f"The {MARK} pump is watched.", "rules": [f"Never sell the {MARK} pump."]}
    await harness.service.as_operator.patch(f"/v1/chats/chat-1/checkpoints/{deepest}", json=said)
    leaf = talk.turns(18, leaf=leaf)
    await talk.ingest(leaf, title=f"The {MARK} pump", user_name=f"Ann {MARK}")
    # A round whose failure quotes the chat.
    await harness.due_now()
    harness.llm.default = Fail(400, f"The {MARK} pump is no question.")
    await harness.compress(harness.worker_context(fallback_after=NEVER))
    harness.llm.default = WRITTEN
    await run_sql(harness.runtime, "update chats set due_at = now() + interval '1 day' where due_at is not null")
    return leaf


async def columns(urls: Urls, *words: str) -> set[str]:
    """The columns that have one of these in some row, as it is or compressed: `table.column`."""
    url = make_url(urls.database).set(drivername="postgresql").render_as_string(hide_password=False)
    connection: Any = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
        found = set()
        for (table,) in tables:
            for row in await connection.fetch(f'select * from "{table}"'):
                for name, value in row.items():
                    stored = readable(value)
                    if any(one.encode() in stored for one in words):
                        found.add(f"{table}.{name}")
        return found
    finally:
        await connection.close()


def readable(value: object) -> bytes:
    """What is in a value for whoever knows the format of a body."""
    if not isinstance(value, bytes):
        return str(value).encode()
    found, place = value, value.find(zstandard.FRAME_HEADER)
    while place >= 0:
        with suppress(zstandard.ZstdError):
            found += zstandard.ZstdDecompressor().decompressobj().decompress(value[place:])
        place = value.find(zstandard.FRAME_HEADER, place + 1)
    return found


async def answers(service: Service, talk: Talk, leaf: str) -> list[Any]:
    found: list[Any] = [await talk.ask(leaf)]
    state = found[0]["state"] | {"cut": "left out"}
    questions = {"query": f"{MARK} pump"}, {"query": "bar below reading"}, {"ref": "M1"}
    found += [await recall(talk, state, **asked) for asked in questions]
    chats = f"/v1/chats/{talk.chat}"
    chat = (await service.as_operator.get(chats)).json()
    made = chat["checkpoints"]
    found += [(await service.as_operator.get(f"{chats}/checkpoints/{one['id']}")).json() for one in made]
    return [_timeless(one) for one in [*found, *made, *chat["runs"]]]


def _timeless(value: Any) -> Any:
    match value:
        case list():
            return [_timeless(one) for one in value]
        case dict():
            # A boundary is keyed with what each database has of its own.
            passing = ("created_at", "started_at", "ended_at", "updated_at", "request_id", "boundary")
            return {name: _timeless(one) for name, one in value.items() if name not in passing}
        case str():
            return re.sub(r"127\.0\.0\.1:\d+|precis_op_\S+", "", value)  # the model's address, the operator's key
        case _:
            return value
