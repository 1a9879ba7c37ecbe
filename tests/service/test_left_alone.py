"""A user looks at what stands for the earlier part of their chat; and chats that are left alone, or compacted."""

import re

import httpx
import pytest

from service.transcript import count_sent_tokens
from tests.dialogs import shown
from tests.service.harness import Harness
from tests.service.talk import Json, Talk, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def post(harness: Harness, route: str, /, **body: object) -> httpx.Response:
    return await harness.talk.client.post(f"/v1/chats/chat-1/{route}", json={"user_id": "user-1"} | body)


async def leave_alone(harness: Harness, alone: bool = True) -> None:
    response = await post(harness, "left-alone", left_alone=alone)
    assert (response.status_code, response.json()) == (200, {"left_alone": alone})


async def view(harness: Harness, leaf: str) -> Json:
    response = await post(harness, "view", message_id=leaf)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def summarised(harness: Harness) -> str:
    """A chat whose requests carry a summary; its leaf."""
    harness.talk.window = 8192
    leaf = await harness.long_chat()
    await harness.drain()
    return leaf


async def test_a_user_sees_the_summary_that_the_model_is_sent(harness: Harness) -> None:
    leaf = await summarised(harness)
    sent = await harness.talk.ask(leaf)

    seen = await view(harness, leaf)

    bar, stands, summary = shown(seen["text"]).split("\n\n", 2)
    about = re.search(r"about ([\d,]+) of 8,192 tokens", bar)
    assert about
    beside = count_sent_tokens([harness.talk.request(leaf)["messages"][place] for place in (0, -1)])
    assert int(about[1].replace(",", "")) + beside == pytest.approx(sent["tokens"]["after"], abs=10)
    assert f"first {sent['covered_messages']} of {len(harness.talk.path(leaf))} messages" in stands
    assert summary == f"{sent['summary'].strip()}\n\nBoth buttons only close this window."


async def test_a_chat_that_is_left_alone_is_served_nothing_without_work_and_its_fork_is(harness: Harness) -> None:
    leaf = await summarised(harness)
    assert (await harness.talk.ask(leaf))["status"] == "ready"

    await leave_alone(harness)

    leaf = harness.talk.turns(20, leaf=leaf)
    assert await harness.talk.ingest(leaf) is False
    assert (await harness.chat()).due_at is None
    seen = await post(harness, "view", message_id=leaf, wait=1)
    assert "this chat is left alone" in seen.json()["text"], "nor has it a look resumed"
    (said,) = await rows(harness.runtime, "select actor, action, details from audit")
    assert (said.actor, said.action, said.details) == ("user user-1", "chat.leave", {})
    newest = harness.talk.turns(2, leaf=leaf)  # not told, so that the second statement answers
    for path in (leaf, newest):
        answer = await harness.talk.ask(path)
        assert (answer["status"], answer["summary"]) == ("not_needed", "")
    fork = Talk(harness.talk.client, "fork", harness.talk.rows, window=8192)
    assert (await fork.ask(newest, seconds=8))["status"] == "ready", "what its user's other chat has"
    await harness.service.stored()
    assert (await fork.ask(newest))["status"] == "ready"

    await fork.client.post("/v1/chats/fork/left-alone", json={"user_id": "user-1", "left_alone": True})
    await leave_alone(harness, alone=False)
    assert (await fork.ask(newest))["status"] == "not_needed"
    assert (await harness.talk.ask(newest))["status"] == "ready", "the other chat is not left alone"


async def test_what_open_webui_compacts_is_stored_and_work_that_was_due_ends_without_a_call(harness: Harness) -> None:
    leaf = await harness.long_chat()

    assert await harness.talk.ingest(leaf, compacted=True) is False
    await harness.drain()

    assert harness.llm.requests == []
    assert await harness.made() == []
    assert await harness.runs() == []
    leaf = harness.talk.turns(20, leaf=leaf)
    assert await harness.talk.ingest(leaf, compacted=True) is False
    assert (await harness.chat()).due_at is None
    assert not (await harness.talk.ask(leaf))["whole"], "all of it is stored"
