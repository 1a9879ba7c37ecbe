"""A chat that somebody else compresses as well: seen by operators, and never compressed twice."""

import pytest

from tests.service.desk import Desk

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_chat_that_open_webui_compacts_is_stored_and_no_work_becomes_due(desk: Desk) -> None:
    leaf = desk.talk.turns(14)

    assert await desk.talk.hand_over(leaf, compactor="open-webui") is False

    assert (await desk.chat()).due_at is None
    assert (await desk.talk.ask(leaf))["known"] == leaf
    assert await desk.compress() is None
    assert desk.llm.requests == []


async def test_operators_see_who_compresses_a_chat(desk: Desk) -> None:
    leaf = desk.talk.turns(1)
    for compactor in ("open-webui", "provider", None):
        await desk.talk.hand_over(leaf, compactor=compactor)
        (listed,) = (await desk.service.as_operator.get("/v1/chats")).json()["chats"]
        shown = (await desk.service.as_operator.get("/v1/chats/chat-1")).json()["chat"]
        assert listed["compactor"] == shown["compactor"] == compactor


@pytest.mark.parametrize("compactor", [None, "provider"])
async def test_work_becomes_due_as_usual_when_open_webui_compacts_no_more(desk: Desk, compactor: str | None) -> None:
    leaf = desk.talk.turns(14)
    await desk.talk.hand_over(leaf, compactor="open-webui")

    grown = desk.talk.turns(1, leaf=leaf)
    assert await desk.talk.hand_over(grown, after=leaf, compactor=compactor) is True

    await desk.drain()
    assert (await desk.talk.ask(grown))["status"] == "ready"


async def test_work_that_was_due_before_ends_without_a_call(desk: Desk) -> None:
    leaf = await desk.long_chat()

    await desk.talk.hand_over(leaf, compactor="open-webui")
    await desk.drain()

    assert desk.llm.requests == []
    assert await desk.made() == []
    (run,) = await desk.runs()
    assert (run.outcome, run.reason) == ("nothing to do", "Open WebUI compacts this chat itself")


async def test_summaries_made_before_stay(desk: Desk) -> None:
    leaf = await desk.long_chat()
    await desk.drain()
    before = await desk.talk.ask(leaf)

    await desk.talk.hand_over(leaf, compactor="open-webui")

    assert before["status"] == "ready"
    assert await desk.talk.ask(leaf) == before


async def test_a_recompute_says_why_nothing_is_made(desk: Desk) -> None:
    await desk.talk.hand_over(desk.talk.turns(14), compactor="open-webui")

    assert (await desk.service.as_operator.post("/v1/chats/chat-1/recompute")).json()["due"] is True
    await desk.drain()

    runs = (await desk.service.as_operator.get("/v1/chats/chat-1")).json()["runs"]
    assert [run["reason"] for run in runs] == ["Open WebUI compacts this chat itself"]
    assert desk.llm.requests == []
