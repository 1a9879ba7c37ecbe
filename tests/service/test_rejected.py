"""What a model answers that may not be published, and calls that fail: what is kept, and when it is tried again."""

from typing import Any

import pytest

from tests.constants import NEVER
from tests.fakes.scripted_llm import (
    Behaviour,
    Disconnect,
    Fail,
    Hang,
    Say,
)
from tests.service.grown import in_one_call
from tests.service.harness import Harness, told
from tests.service.talk import Json, check_tree

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAILING: dict[str, tuple[Behaviour, str]] = {
    "500": (Fail(500), "HTTP 500"),
    "a lost connection": (Disconnect(), "Is the server up?"),
    "no end of thinking": (Hang(), "time limit"),
}


async def grown_by(harness: Harness, behaviour: Behaviour, **more: Any) -> Json:
    """What serves a chat with one summary after a round in which the model behaves like this."""
    leaf = await in_one_call(harness)
    before = await harness.talk.ask(leaf)
    leaf = harness.talk.turns(18, leaf=leaf)
    assert await harness.talk.ingest(leaf)
    harness.llm.default = behaviour

    await harness.compress(harness.worker_context(summariser_window=32_768, fallback_after=NEVER, **more))

    after = await harness.talk.ask(leaf)
    assert after["covered_messages"] > before["covered_messages"], "what code made at once"
    assert "Story b." in after["summary"], "on top of what the model wrote before"
    return after


@pytest.mark.parametrize(("behaviour", "reason"), FAILING.values(), ids=FAILING.keys())
async def test_a_call_that_fails_is_recorded_and_tried_again(
    harness: Harness, behaviour: Behaviour, reason: str
) -> None:
    await grown_by(harness, behaviour, summariser_timeout=0.3 if behaviour == Hang() else 120)

    run, chat = (await harness.runs())[-1], await harness.chat()
    assert (run.outcome, run.published) == ("failed", 0)
    assert reason in run.reason
    assert chat.last_error.partition(":")[0] == run.reason.partition(":")[0]
    assert chat.attempts == 1
    assert 0 < chat.wait.total_seconds() <= 2
    assert len(await harness.made()) == 1


async def test_failures_back_off_further_and_further_up_to_a_bound(harness: Harness) -> None:
    await harness.long_chat()
    harness.llm.default = Fail(400)
    worker_context, waits = harness.worker_context(fallback_after=NEVER), []
    for attempt in range(1, 12):
        waits.append(await harness.compress(worker_context))
        chat = await harness.chat()
        assert chat.attempts == attempt
        assert 0 < chat.wait.total_seconds() <= waits[-1]
        assert await harness.compress(worker_context) is None  # not due: nobody is asked
        await harness.due_now()

    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert len(harness.llm.requests) == 11
    assert await harness.made() == []


async def test_a_new_turn_does_not_end_the_back_off(harness: Harness) -> None:
    leaf = await harness.long_chat()
    harness.llm.default = Fail(400)
    await harness.compress()
    asked = len(harness.llm.requests)

    await harness.talk.ingest(harness.talk.turns(1, leaf=leaf))

    assert await harness.compress() is None
    assert len(harness.llm.requests) == asked


async def test_after_enough_failures_a_degraded_checkpoint_is_published(harness: Harness) -> None:
    leaf = await harness.long_chat()
    harness.llm.default = Fail(400)
    worker_context = harness.worker_context(summariser_window=32_768, fallback_after=2)
    for _ in range(2):
        await harness.compress(worker_context)
        assert await harness.made() == []
        await harness.due_now()
    asked = len(harness.llm.requests)

    assert await harness.compress(worker_context) is None

    (made,) = await harness.made()
    assert (made.kind, made.summariser) == ("degraded", "extractive")
    assert len(harness.llm.requests) == asked
    assert (await harness.talk.ask(leaf))["status"] == "ready"
    chat = await harness.chat()
    assert (chat.attempts, chat.last_error) == (0, None)

    # When the model is back, it goes on from that one.
    harness.llm.default = Say("From the model.")
    leaf = harness.talk.turns(40, leaf=leaf)
    await harness.talk.ingest(leaf)
    await harness.due_now()
    await harness.compress(worker_context)
    first, *_, newest = [one for one in await harness.made() if one.kind == "llm"]
    assert (first.parent_id, told(newest)) == (made.id, "From the model.")
    assert (await harness.talk.ask(leaf))["checkpoint_id"] == newest.id
    await check_tree(harness.runtime)
