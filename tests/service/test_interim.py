"""A summary by code serves at once, until a summariser has read what it covers."""

import re
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import checkpoints, work
from service.storage.checkpoints import NewCheckpoint
from service.storage.work import Lease
from service.usecases.compress import compress
from service.usecases.compress.claims import claim_chat
from tests.service.harness import Harness, state, thinking
from tests.service.talk import Json, check_tree, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

WIDE: dict[str, Any] = {"summariser_window": 32_768}


def leaf_of(harness: Harness) -> str:
    return list(harness.talk.rows)[-1]


def pinned(row: Any) -> list[str]:
    return [pin["text"] for pin in row.pins]


async def test_it_is_carried_on_to_its_own_boundary_although_the_tail_may_be_longer_now(harness: Harness) -> None:
    """Beside fewer tools a model leaves more of the chat verbatim than code did: its words serve all the same."""
    leaf = harness.talk.turns(80, tokens=150)
    await harness.talk.ingest(leaf)
    worker_context = harness.worker_context(**WIDE)
    harness.llm.default = lambda _: state("The pumps hum softly.")
    await run_sql(harness.runtime, "update chats set overhead_tokens = 4000")
    await harness.by_code(worker_context)
    (deep,) = await harness.interim()
    await run_sql(harness.runtime, "update chats set overhead_tokens = 0")

    await harness.compress(worker_context)

    (made,) = await harness.made()
    (carried_on,) = await harness.interim()
    assert deep.id < made.id < carried_on.id
    assert made.covered_messages < deep.covered_messages == carried_on.covered_messages
    assert "The pumps hum softly." in carried_on.summary
    assert "The pumps hum softly." in (await harness.talk.ask(leaf))["summary"]


async def test_a_kill_between_codes_work_and_the_models_loses_nothing(harness: Harness) -> None:
    leaf = await harness.long_chat()
    worker_context = harness.worker_context(**WIDE)
    assert await claim_chat(worker_context), "and then the worker is killed"
    assert await compress(worker_context) is None, "its lease is kept for it"
    await run_sql(harness.runtime, "update chats set code_at = now(), code_until = now() - interval '1 s'")

    await harness.by_code(worker_context)
    assert (await harness.talk.ask(leaf))["status"] == "ready"
    async with harness.runtime.database.engine.connect() as connection:
        assert await work.count_waiting(connection, 5) == 1, "a sweep finds the model's work"
    killed = await claim_chat(worker_context)
    assert killed
    assert not killed.lease.by_code
    await run_sql(harness.runtime, "update chats set lease_until = now() - interval '1 s'")
    await harness.drain(worker_context)

    assert [one.kind for one in await harness.made()] == ["llm"]
    lost = [run for run in await harness.runs() if run.outcome != "done"]
    assert [(run.outcome, run.ended_at is not None) for run in lost] == [("lost", True)] * 2
    shown = (await harness.service.as_operator.get("/v1/chats/chat-1")).json()["runs"]
    assert [run["outcome"] for run in shown].count("lost") == 2
    await check_tree(harness.runtime)


def keeping(messages: list[Json]) -> str:
    """An answer that keeps the first sentence of each message of a user."""
    new = str(messages[1]["content"]).partition("messages that followed")[2]
    numbers = re.findall(r"\[(\d+\.1)\] Reading (?:\d+-)?u", new)
    return "\n".join([state("Story."), *(f"quotations: {number}" for number in numbers)])


async def goes_on(harness: Harness, leaf: str, served: list[Json]) -> None:
    """The chat goes on, and code serves it again."""
    longer = harness.talk.turns(18, leaf=leaf, prefix=f"{len(harness.talk.rows)}-")
    longer = harness.talk.turns(6, tokens=60, leaf=longer, prefix=f"{len(harness.talk.rows)}-")
    await harness.talk.ingest(longer)
    await harness.by_code(harness.worker_context(**WIDE))
    served[:] = [await harness.talk.ask(longer)]


async def test_what_the_summariser_published_since_is_taken_over_however_long_a_call_takes(harness: Harness) -> None:
    await harness.long_chat()
    harness.llm.default = keeping
    served: list[Json] = []

    for number in range(3):
        before = (await harness.made())[-1:]
        await harness.compress(thinking(harness, lambda: goes_on(harness, leaf_of(harness), served), **WIDE))
        assert all(text in served[0]["summary"] for one in before for text in pinned(one))
        made = (await harness.made())[-1]
        assert len(pinned(made)) > 5 * (number + 1)
        # Carried on at once, and not with the next turn, to where the one before served.
        answer = await harness.talk.ask(leaf_of(harness))
        assert answer["covered_messages"] >= served[0]["covered_messages"] > made.covered_messages
        assert all(text in answer["summary"] for text in pinned(made))
        assert made.state[0] in answer["summary"]
        (interim,) = await harness.interim()
        assert (interim.id, interim.parent_id) == (answer["checkpoint"], made.id)
        assert (interim.state, pinned(interim)) == (made.state, pinned(made))
        await check_tree(harness.runtime)


async def test_one_that_got_its_id_after_the_summary_it_does_not_know_yields_too(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = await harness.long_chat()
    harness.llm.default = keeping
    served: list[Json] = []
    publish = checkpoints.publish_checkpoint

    async def late(connection: AsyncConnection, lease: Lease, fresh: NewCheckpoint) -> int | None:
        if fresh.kind == "llm":
            await goes_on(harness, leaf, served)
        return await publish(connection, lease, fresh)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "publish_checkpoint", late)
        await harness.compress(harness.worker_context(**WIDE))
    (made,), (interim,) = await harness.made(), await harness.interim()
    assert served[0]["checkpoint"] > made.id, "it serves before, and its id is newer"
    assert made.state[0] not in served[0]["summary"]

    assert interim.parent_id == made.id
    assert pinned(interim) == pinned(made)
    assert (await harness.talk.ask(leaf_of(harness)))["checkpoint"] == interim.id
    await check_tree(harness.runtime)
