"""A summary by code serves at once, until a summariser has read what it covers."""

import re
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import publishing
from service.storage.publishing import Fresh
from service.storage.work import Lease
from service.usecases.compress import WorkerContext
from tests.constants import NEVER
from tests.fakes.scripted_llm import Fail
from tests.service.ageing import removed, without_text
from tests.service.grown import in_one_call
from tests.service.harness import Harness, state, thinking, told
from tests.service.talk import Json, check_tree, run_sql
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

WIDE: dict[str, Any] = {"summariser_window": 32_768}


def leaf_of(harness: Harness) -> str:
    """The newest message."""
    return list(harness.talk.rows)[-1]


def pinned(row: Any) -> list[str]:
    return [pin["text"] for pin in row.pins]


async def test_it_retires_when_the_summariser_has_read_the_same(harness: Harness) -> None:
    await harness.long_chat()

    await harness.drain(harness.worker_context(**WIDE))

    assert await harness.interim() == []
    (made,) = await harness.made()
    assert (made.kind, made.parent_id) == ("llm", 0)
    await check_tree(harness.runtime)


async def test_it_is_made_without_a_call_when_there_is_little_to_read(harness: Harness) -> None:
    leaf = await in_one_call(harness)
    calls = len(harness.llm.requests)

    grown = harness.talk.turns(8, leaf=leaf)
    await harness.talk.ingest(grown)
    await harness.drain(harness.worker_context(**WIDE))

    assert len(harness.llm.requests) == calls
    (made,), (interim,) = await harness.made(), await harness.interim()
    assert interim.parent_id == made.id
    assert told(interim) == told(made)
    answer = await harness.talk.ask(grown)
    assert answer["checkpoint"] == interim.id
    assert answer["covered_messages"] > made.covered_messages


def keeping(messages: list[Json]) -> str:
    """An answer that keeps the first sentence of each message of a user."""
    new = str(messages[1]["content"]).partition("messages that followed")[2]
    numbers = re.findall(r"\[(\d+\.1)\] Reading (?:\d+-)?u", new)
    return "\n".join([state("Story."), *(f"quotations: {number}" for number in numbers)])


def going_on(harness: Harness, leaf: str, turns: int, served: list[Json], **more: Any) -> WorkerContext:
    """A model that keeps sentences; while it thinks, the chat goes on until code serves it again."""
    harness.llm.default = keeping
    return thinking(harness, lambda: goes_on(harness, leaf, turns, served), **WIDE, **more)


async def goes_on(harness: Harness, leaf: str, turns: int, served: list[Json]) -> None:
    longer = harness.talk.turns(turns, leaf=leaf, prefix=f"{len(harness.talk.rows)}-")
    longer = harness.talk.turns(6, tokens=60, leaf=longer, prefix=f"{len(harness.talk.rows)}-")
    await harness.talk.ingest(longer)
    before = await harness.talk.ask(longer)

    async def is_deeper() -> bool:
        served[:] = [await harness.talk.ask(longer)]
        return bool((served[0]["covered_messages"] or 0) > (before["covered_messages"] or 0))

    await until(is_deeper)


async def test_a_branch_that_leaves_the_one_that_the_summariser_reads_is_served_meanwhile(harness: Harness) -> None:
    """As when a user edits an old question while a call hangs."""
    leaf = await harness.long_chat()
    fork = harness.talk.path(leaf)[9]["id"]
    served: list[Json] = []

    await harness.compress(thinking(harness, lambda: goes_on(harness, fork, 18, served), **WIDE))

    assert served[0]["status"] == "ready"
    assert served[0]["covered_messages"] > 10
    await check_tree(harness.runtime)
    await harness.drain(harness.worker_context(**WIDE))
    assert await harness.interim() == []
    await check_tree(harness.runtime)


async def by_code_alone(harness: Harness, **more: Any) -> None:
    """A round in which the model fails, after code has written what is served at once."""
    harness.llm.default = Fail(400)
    await run_sql(harness.runtime, "update chats set due_at = now()")
    await harness.compress(harness.worker_context(fallback_after=NEVER, **WIDE, **more))


async def test_what_the_summariser_published_since_is_taken_over_however_long_a_call_takes(harness: Harness) -> None:
    await harness.long_chat()
    served: list[Json] = []

    for _ in range(3):
        before = (await harness.made())[-1:]
        await harness.compress(going_on(harness, leaf_of(harness), 18, served))
        (interim,) = [one for one in await harness.interim() if one.id == served[0]["checkpoint"]]
        assert pinned(interim) == [text for one in before for text in pinned(one)]
        assert all(text in served[0]["summary"] for text in pinned(interim))
        await check_tree(harness.runtime)

    made = (await harness.made())[-1]
    assert len(pinned(made)) > len(pinned(interim)) > 10
    assert made.covered_messages < interim.covered_messages
    await by_code_alone(harness)
    answer = await harness.talk.ask(leaf_of(harness))
    assert all(text in answer["summary"] for text in pinned(made)), "at once, and not with the next turn"
    assert [one.parent_id for one in await harness.interim()] == [made.id]
    await check_tree(harness.runtime)


async def test_one_that_got_its_id_after_the_summary_it_does_not_know_yields_too(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = await harness.long_chat()
    harness.llm.default = keeping
    served: list[Json] = []
    publish = publishing.publish

    async def late(connection: AsyncConnection, lease: Lease, fresh: Fresh) -> int | None:
        if fresh.kind == "llm":
            await goes_on(harness, leaf, 18, served)
        return await publish(connection, lease, fresh)

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "publish", late)
        await harness.compress(harness.worker_context(**WIDE))
    (made,), (unaware,) = await harness.made(), await harness.interim()
    assert unaware.id > made.id

    await by_code_alone(harness)

    (interim,) = await harness.interim()
    assert interim.parent_id == made.id
    assert pinned(interim) == pinned(made) != pinned(unaware)
    await check_tree(harness.runtime)


async def test_retention_keeps_the_texts_that_the_summariser_has_not_read(harness: Harness) -> None:
    leaf = await harness.long_chat()
    harness.llm.default = Fail(400)
    await harness.compress(harness.worker_context(fallback_after=NEVER, **WIDE))
    assert (await harness.talk.ask(leaf))["status"] == "ready"

    await removed(harness, keep_bodies="until_covered")

    assert await without_text(harness) == set()
