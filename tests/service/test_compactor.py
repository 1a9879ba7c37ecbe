"""A chat that somebody else compresses as well: seen by operators, and never compressed twice."""

import pytest

from tests.service.harness import Harness

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_chat_that_open_webui_compacts_is_stored_and_no_work_becomes_due(harness: Harness) -> None:
    leaf = harness.talk.turns(20)

    assert await harness.talk.ingest(leaf, compactor="open-webui") is False

    assert (await harness.chat()).due_at is None
    assert (await harness.talk.ask(leaf))["known"] == leaf
    assert await harness.compress() is None
    assert harness.llm.requests == []


async def test_work_becomes_due_as_usual_when_open_webui_compacts_no_more(harness: Harness) -> None:
    leaf = harness.talk.turns(20)
    await harness.talk.ingest(leaf, compactor="open-webui")

    grown = harness.talk.turns(1, leaf=leaf)
    assert await harness.talk.ingest(grown, after=leaf) is True

    await harness.drain()
    assert (await harness.talk.ask(grown))["status"] == "ready"


async def test_work_that_was_due_before_ends_without_a_call(harness: Harness) -> None:
    leaf = await harness.long_chat()

    await harness.talk.ingest(leaf, compactor="open-webui")
    await harness.drain()

    assert harness.llm.requests == []
    assert await harness.made() == []
    (run,) = await harness.runs()
    assert (run.outcome, run.reason) == ("nothing to do", "Open WebUI compacts this chat itself")
