"""The work on one chat, with a language model that does what a script says: nothing lost, doubled, hidden or luck."""

import json
import re

import pytest

from tests.fakes.scripted_llm import Hang, Request, Say
from tests.service.harness import Harness, new_in, running, story, told
from tests.service.talk import Talk, check_tree

pytestmark = pytest.mark.asyncio(loop_scope="module")


def read_in(request: Request) -> list[str]:
    """The values that a call reads anew, each of which stands in one message only."""
    return re.findall(r"Reading (\S+): pump", new_in(request))


def written_in(talk: Talk, ids: list[str]) -> list[str]:
    texts = [str(talk.rows[identity]["content"]) for identity in ids]
    return re.findall(r"Reading (\S+): pump", "\n".join(texts))


# Growing


@pytest.mark.parametrize("kind", ["openai", "ollama"])
async def test_the_first_round_publishes_a_checkpoint_by_the_configured_model(harness: Harness, kind: str) -> None:
    leaf = await harness.long_chat()

    await harness.drain(harness.worker_context(kind, summariser_window=32_768))

    (made,) = await harness.made()
    (run,) = await harness.runs(by_code=False)
    (request,) = harness.llm.requests
    assert request.path == ("/v1/chat/completions" if kind == "openai" else "/api/chat")
    if kind == "ollama":
        assert request.body["options"]["num_ctx"] == 32_768  # or the input would be cut in silence
    assert (made.kind, made.summariser, told(made)) == ("llm", f"{kind}:scripted", story(1))
    assert (run.outcome, run.calls, run.published) == ("done", 1, 1)
    answer = await harness.talk.ask(leaf)
    assert (answer["status"], answer["checkpoint"]) == ("ready", made.id)
    assert story(1) in answer["summary"]
    await check_tree(harness.runtime)


async def test_a_model_may_have_a_summariser_of_its_own(harness: Harness) -> None:
    await harness.long_chat()
    own = {harness.talk.model: {"summariser_model": "another"}, "model-2": {"summariser_model": "third"}}

    await harness.compress(harness.worker_context(summariser_window=32_768, models=json.dumps(own)))

    assert {request.body["model"] for request in harness.llm.requests} == {"another"}
    assert {made.summariser for made in await harness.made()} == {"openai:another"}


# Losing nothing


async def test_a_crash_in_the_third_call_loses_that_call_only(harness: Harness) -> None:
    leaf = await harness.long_chat(20)
    harness.llm.script(Say("First."), Say("Second."), Hang())

    async with running(harness.compress()):
        await harness.llm.received(3)
        assert [told(made) for made in await harness.made()] == ["First.", "Second."]
    (run,) = await harness.runs(by_code=False)
    assert (run.outcome, run.calls, run.published) == ("released", 2, 2)
    lost_call = harness.llm.requests[2]

    await harness.drain()

    assert "Second." in harness.llm.requests[3].text
    assert read_in(harness.llm.requests[3])[0] == read_in(lost_call)[0]  # goes on after chunk 2
    path = [message["id"] for message in harness.talk.path(leaf)]
    covered = path[: path.index((await harness.made())[-1].until) + 1]
    without_lost = [request for request in harness.llm.requests if request is not lost_call]
    assert [value for request in without_lost for value in read_in(request)] == written_in(harness.talk, covered)
