"""A reply that the gate rejects: one repair with the reasons, then rules write."""

import pytest

from tests.fakes.scripted_llm import Empty, Say
from tests.service.harness import Harness

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVENTED = Say("## Goal\n- There are 31337 pumps.\n- There are 31338 valves.")
FINE = Say("## Goal\n- Watch the pumps.")


async def test_the_repair_call_carries_the_reasons_and_its_reply_is_taken(harness: Harness) -> None:
    leaf = await harness.long_chat()
    harness.llm.script(INVENTED, FINE)

    await harness.compress(harness.worker_context(summariser_window=32_768))

    first, second = harness.llm.requests
    assert "31337 does not occur" not in first.text
    assert "31337 does not occur" in second.text
    assert first.messages[0]["role"] == second.messages[0]["role"] == "system"
    (made,) = await harness.made()
    assert (made.kind, made.verdict["outcome"]) == ("llm", "repaired")
    assert "31337 does not occur" in made.verdict["reasons"][0]
    assert "31337" not in (await harness.talk.ask(leaf))["summary"]


async def test_a_model_that_stays_bad_is_asked_once_more_and_then_left_alone(harness: Harness) -> None:
    await harness.long_chat()
    worker_context = harness.worker_context(summariser_window=32_768)
    harness.llm.default = Empty()
    assert await harness.compress(worker_context) == 300
    await harness.due_now()

    assert await harness.compress(worker_context) is None

    assert [made.kind for made in await harness.made()] == ["degraded", "degraded"]
    assert len(harness.llm.requests) == 4
