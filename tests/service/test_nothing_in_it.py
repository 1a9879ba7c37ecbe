"""Messages of which a summary would tell nothing: none is published, and the next one stands for them as well."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from service.usecases.compress import WorkerContext
from tests.fakes.scripted_llm import Fail, Say
from tests.service.harness import Harness
from tests.service.talk import check_tree

pytestmark = pytest.mark.asyncio(loop_scope="module")

HIDDEN = "\u2060"
"""A character that shows nothing, and costs tokens."""
NOTHING_KEPT = Say("quotations: 99.1")


def built_in(harness: Harness) -> WorkerContext:
    return replace(harness.worker_context(), summariser=None)


def asked(harness: Harness) -> WorkerContext:
    """A model that chooses nothing; before it answers, code may write an interim summary."""
    harness.llm.default = NOTHING_KEPT
    return harness.worker_context()


def failing(harness: Harness) -> WorkerContext:
    """A model that fails, so that the built-in summariser writes in its place."""
    harness.llm.default = Fail(400)
    return harness.worker_context(fallback_after=1)


def hidden_turns(harness: Harness, count: int) -> str:
    leaf = None
    for number in range(count):
        leaf = harness.talk.add(f"hidden-{number}", leaf, content=HIDDEN * 200)
        leaf = harness.talk.add(f"shown-{number}", leaf, "assistant", HIDDEN * 200)
    assert leaf
    return leaf


async def rounds(harness: Harness, context: WorkerContext, most: int) -> None:
    """Rounds as long as work is due, whatever it waits for."""
    for _ in range(most):
        await harness.compress(context)
        await harness.due_now()


@pytest.mark.parametrize("worker", [built_in, asked, failing])
async def test_nothing_is_published_until_there_is_something_to_tell(
    harness: Harness, worker: Callable[[Harness], WorkerContext]
) -> None:
    context = worker(harness)
    leaf = hidden_turns(harness, 20)
    assert await harness.talk.ingest(leaf)
    await rounds(harness, context, 3)

    assert [*await harness.made(), *await harness.interim()] == []
    assert (await harness.runs())[-1].reason.startswith("nothing in it")
    chat = await harness.chat()
    assert (chat.due_at, chat.dead_at) == (None, None), "it is not tried for ever"

    leaf = harness.talk.turns(12, leaf=leaf)
    assert await harness.talk.ingest(leaf)
    await rounds(harness, context, 6)
    first = (await harness.made())[0]
    assert "Reading" in first.summary
    assert first.covered_messages > 40, "it stands for the hidden ones as well"
    assert (await harness.talk.ask(leaf))["status"] == "ready"
    await check_tree(harness.runtime)
