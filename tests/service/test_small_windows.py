"""Small windows and small models: what we ask for fits, every chat makes progress, every answer gives a checkpoint."""

import os

import pytest

from service.text import tokens
from tests.fakes.scripted_llm import Request, Say
from tests.service.harness import Harness
from tests.service.talk import check_tree, prose

pytestmark = pytest.mark.asyncio(loop_scope="module")


def asked(request: Request) -> int:
    """Tokens that a request needs of its model's window."""
    read = sum(tokens.count(message["content"]) + tokens.MESSAGE_TOKENS for message in request.messages)
    return read + int(request.body["max_tokens"])


@pytest.mark.parametrize("window", [4096, 8192, 16_384])
async def test_no_request_exceeds_the_summarisers_window(harness: Harness, window: int) -> None:
    talk = harness.talk
    leaf = talk.add("long", talk.add("q", talk.turns(2)), "assistant", prose(12_000, "long"))
    await harness.long_chat(20, leaf=leaf)
    harness.llm.default = Say(
        "## Goal\n" + "\n".join(f"- There are {number} pumps." for number in range(10**5, 10**5 + 40))
    )

    await harness.compress(harness.worker_context(summariser_window=window))

    assert len(harness.llm.requests) >= 2
    assert max(map(asked, harness.llm.requests)) <= window
    assert "does not occur" in harness.llm.requests[1].text  # repairs too


FULL = pytest.mark.skipif(not os.environ.get("PRECIS_TEST_FULL_SIZE"), reason="takes minutes: PRECIS_TEST_FULL_SIZE=1")


@pytest.mark.parametrize(
    ("turns", "tokens", "window", "model_window"),
    [(60, 600, 4096, 8192), *(pytest.param(1000, 256, window, 131_072, marks=FULL) for window in (4096, 8192, 16_384))],
)
async def test_a_long_chat_catches_up_in_bounded_rounds_and_is_served_from_the_first_on(
    harness: Harness, turns: int, tokens: int, window: int, model_window: int
) -> None:
    """The full size is a first import of 2,000 messages and 256,000 tokens."""
    harness.llm.default = Say("## Goal\n- Watch the pumps.")
    harness.talk.window = model_window
    worker_context = harness.worker_context(summariser_window=window, window=model_window)
    leaf = harness.talk.turns(turns, tokens)
    assert await harness.talk.ingest(leaf)

    await harness.compress(worker_context)
    first = len(harness.llm.requests)
    assert 0 < first <= 8
    assert (await harness.talk.ask(leaf))["checkpoint_id"] == (await harness.made())[-1].id
    await harness.drain(worker_context)

    assert all(run.calls <= 8 for run in await harness.runs())
    assert len(harness.llm.requests) > first
    answer = await harness.talk.ask(leaf)
    assert answer["status"] == "ready"
    assert answer["tokens"]["after"] < model_window
    await check_tree(harness.runtime)
