"""Work that is given up: when, what it leaves behind, and what brings it back."""

from dataclasses import replace
from typing import Any

import pytest

from service.errors import SummariserError
from service.summarising.reading import Reading, Reply
from service.usecases.compress import compress
from tests.constants import NEVER
from tests.fakes.scripted_llm import Fail
from tests.service.harness import Harness

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALONE: dict[str, Any] = {
    "summariser_window": 32_768,
    "fallback_after": NEVER,
    "breaker_after": 100,
}  # one call a chat, nobody stands in


async def until_dead(harness: Harness, attempts: int, **more: Any) -> str:
    """A chat that failed so often, and is given up; returns its leaf."""
    leaf = await harness.long_chat()
    harness.llm.default = Fail(400)
    worker_context = harness.worker_context(**ALONE, max_attempts=attempts, **more)
    for left in reversed(range(attempts)):
        assert (await harness.compress(worker_context) is None) is (left == 0)
        await harness.due_now()
    return leaf


async def test_work_that_failed_too_often_is_dead_with_its_reason_and_not_tried_again(harness: Harness) -> None:
    await until_dead(harness, 3)

    chat = await harness.chat()
    assert chat.dead_at
    assert (chat.due_at, chat.lease_token, chat.attempts) == (None, None, 3)
    assert "HTTP 400" in chat.last_error
    assert await compress(harness.worker_context(**ALONE)) is None
    assert len(harness.llm.requests) == 3
    assert [run.outcome for run in await harness.runs()] == ["failed"] * 3


async def test_a_new_hand_over_gives_dead_work_exactly_one_more_try(harness: Harness) -> None:
    leaf = await until_dead(harness, 2)

    await harness.talk.ingest(harness.talk.turns(1, leaf=leaf))
    assert (await harness.chat()).dead_at is None
    assert await harness.compress(harness.worker_context(**ALONE, max_attempts=2)) is None

    assert (await harness.chat()).dead_at
    assert (await harness.chat()).due_at is None
    assert len(harness.llm.requests) == 3


async def test_a_retry_by_an_operator_gives_dead_work_all_its_tries_again(harness: Harness) -> None:
    await until_dead(harness, 2)
    worker_context = harness.worker_context(**ALONE, max_attempts=2)

    assert (await harness.service.as_operator.post("/v1/jobs/chat-1/retry")).status_code == 202

    assert ((await harness.chat()).dead_at, (await harness.chat()).attempts) == (None, 0)
    assert await harness.compress(worker_context) == 2
    await harness.due_now()
    assert await harness.compress(worker_context) is None
    assert len(harness.llm.requests) == 4


class During:
    """A summariser that fails for good, after something has happened."""

    name = "failing"

    def __init__(self, change: Any) -> None:
        self.change = change

    async def summarise(self, _: Reading) -> Reply:
        await self.change()
        raise SummariserError("out of order")


@pytest.mark.parametrize("who", ["a hand-over", "an operator"])
async def test_what_asks_for_work_during_the_last_try_is_not_lost_with_it(harness: Harness, who: str) -> None:
    leaf = await harness.long_chat()

    async def change() -> None:
        if who == "a hand-over":
            await harness.talk.ingest(harness.talk.turns(1, leaf=leaf))
        else:
            assert (await harness.service.as_operator.post("/v1/jobs/chat-1/retry")).status_code == 202

    usual = harness.worker_context(**ALONE, max_attempts=1)
    again = await harness.compress(replace(usual, summariser=During(change)))

    chat = await harness.chat()
    assert chat.dead_at is None
    assert chat.due_at
    assert again is not None, "somebody has to ring for it"
    assert "out of order" in chat.last_error
    await harness.due_now()
    await harness.drain(usual)
    assert await harness.made()


async def test_a_summariser_that_is_away_makes_no_chat_dead(harness: Harness) -> None:
    await harness.long_chat()
    harness.llm.default = Fail(401)
    worker_context = harness.worker_context(**ALONE, max_attempts=2)

    for _ in range(5):
        assert await harness.compress(worker_context)
        await harness.due_now()

    assert ((await harness.chat()).dead_at, (await harness.chat()).attempts) == (None, 5)
