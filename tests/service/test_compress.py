"""The work on one chat, with a language model that does what a script says."""

import json

import pytest

from tests.fakes.scripted_llm import Hang, Say
from tests.service.harness import Harness, running, told

pytestmark = pytest.mark.asyncio(loop_scope="module")


# Growing


async def test_a_model_may_have_a_summariser_of_its_own(harness: Harness) -> None:
    await harness.long_chat()
    own = {harness.talk.model: {"summariser_model": "another"}, "model-2": {"summariser_model": "third"}}

    await harness.compress(harness.worker_context(summariser_window=32_768, models=json.dumps(own)))

    assert {request.body["model"] for request in harness.llm.requests} == {"another"}
    assert {made.summariser for made in await harness.made()} == {"openai:another"}


# Losing nothing


async def test_a_crash_in_the_third_call_loses_that_call_only(harness: Harness) -> None:
    await harness.long_chat(20)
    harness.llm.script(Say("First."), Say("Second."), Hang())

    async with running(harness.compress()):
        await harness.llm.received(3)
        assert [told(made) for made in await harness.made()] == ["First.", "Second."]
    (run,) = await harness.runs(by_code=False)
    assert (run.outcome, run.calls, run.published) == ("released", 2, 2)

    await harness.drain()

    assert "Second." in harness.llm.requests[3].text
