"""Calls of a model that fail: what is kept, when it is tried again, when it is given up, and what brings it back."""

from typing import Any

import pytest

from service.usecases.compress import compress
from tests.constants import NEVER
from tests.fakes.scripted_llm import Fail, Say
from tests.service.grown import in_one_call
from tests.service.harness import Harness, thinking, told
from tests.service.talk import check_tree

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_call_that_fails_is_recorded_and_tried_again(harness: Harness) -> None:
    leaf = await in_one_call(harness)
    before = await harness.talk.ask(leaf)
    leaf = harness.talk.turns(18, leaf=leaf)
    assert await harness.talk.ingest(leaf)
    harness.llm.default = Fail(500)

    await harness.compress(harness.worker_context(summariser_window=32_768, fallback_after=NEVER))

    after = await harness.talk.ask(leaf)
    assert after["covered_messages"] > before["covered_messages"], "what code made at once"
    assert "Story b." in after["summary"], "on top of what the model wrote before"
    run, chat = (await harness.runs(by_code=False))[-1], await harness.chat()
    assert (run.outcome, run.published) == ("failed", 0)
    assert "HTTP 500" in run.reason
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


async def test_a_chat_that_grows_above_the_limit_gets_a_summary_by_code_during_the_back_off(harness: Harness) -> None:
    leaf = await harness.long_chat()
    harness.llm.default = Fail(400)
    worker_context = harness.worker_context(summariser_window=32_768, fallback_after=NEVER)
    await harness.compress(worker_context)
    before = await harness.talk.ask(leaf)
    asked, failed = len(harness.llm.requests), await harness.chat()
    assert failed.wait.total_seconds() > 0

    leaf = harness.talk.turns(18, leaf=leaf)
    await harness.talk.ingest(leaf)
    assert await harness.compress(worker_context) is None, "the model is not asked"

    assert (await harness.talk.ask(leaf))["covered_messages"] > before["covered_messages"]
    chat = await harness.chat()
    assert (chat.attempts, chat.due_at, chat.last_error) == (1, failed.due_at, failed.last_error)
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
    written = [one for one in await harness.made() if one.kind == "llm"]
    assert (written[0].parent_id, told(written[-1])) == (made.id, "From the model.")
    assert "From the model." in (await harness.talk.ask(leaf))["summary"]
    await check_tree(harness.runtime)


# Work that is given up


# One call a chat, and nobody stands in.
ALONE: dict[str, Any] = {"summariser_window": 32_768, "fallback_after": NEVER, "breaker_after": 100}


async def test_work_that_failed_too_often_is_dead_and_a_new_turn_gives_it_exactly_one_more_try(
    harness: Harness,
) -> None:
    leaf = await harness.long_chat()
    harness.llm.default = Fail(400)
    worker_context = harness.worker_context(**ALONE, max_attempts=3)
    for is_last in (False, False, True):
        assert (await harness.compress(worker_context) is None) is is_last
        await harness.due_now()

    chat = await harness.chat()
    assert chat.dead_at
    assert (chat.due_at, chat.lease_token, chat.attempts) == (None, None, 3)
    assert "HTTP 400" in chat.last_error
    assert await compress(worker_context) is None
    assert len(harness.llm.requests) == 3
    assert [run.outcome for run in await harness.runs(by_code=False)] == ["failed"] * 3

    await harness.talk.ingest(harness.talk.turns(1, leaf=leaf))
    assert (await harness.chat()).dead_at is None
    assert await harness.compress(worker_context) is None

    assert (await harness.chat()).dead_at
    assert (await harness.chat()).due_at is None
    assert len(harness.llm.requests) == 4


@pytest.mark.parametrize("who", ["a hand-over", "an operator"])
async def test_what_asks_for_work_during_the_last_try_is_not_lost_with_it(harness: Harness, who: str) -> None:
    leaf = await harness.long_chat()

    async def change() -> None:
        if who == "a hand-over":
            await harness.talk.ingest(harness.talk.turns(1, leaf=leaf))
        else:
            assert (await harness.service.as_operator.post("/v1/jobs/chat-1/retry")).status_code == 204

    harness.llm.script(Fail(400, "out of order"))
    again = await harness.compress(thinking(harness, change, **ALONE, max_attempts=1))

    chat = await harness.chat()
    assert chat.dead_at is None
    assert chat.due_at
    assert again is not None, "somebody has to ring for it"
    assert "HTTP 400" in chat.last_error
    await harness.due_now()
    await harness.drain(harness.worker_context(**ALONE, max_attempts=1))
    assert await harness.made()


async def test_a_summariser_that_is_away_makes_no_chat_dead(harness: Harness) -> None:
    await harness.long_chat()
    harness.llm.default = Fail(401)
    worker_context = harness.worker_context(**ALONE, max_attempts=2)

    for _ in range(5):
        assert await harness.compress(worker_context)
        await harness.due_now()

    assert ((await harness.chat()).dead_at, (await harness.chat()).attempts) == (None, 5)
