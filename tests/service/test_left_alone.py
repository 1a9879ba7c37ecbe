"""A user looks at what stands for the earlier part of their chat; and chats that are left alone, or compacted."""

import httpx
import pytest

from tests.dialogs import shown
from tests.service.harness import Harness
from tests.service.talk import Json, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def post(harness: Harness, route: str, /, **body: object) -> httpx.Response:
    return await harness.talk.client.post(f"/v1/chats/chat-1/{route}", json={"user_id": "user-1"} | body)


async def leave_alone(harness: Harness, alone: bool = True) -> None:
    response = await post(harness, "left-alone", left_alone=alone)
    assert (response.status_code, response.json()) == (200, {"left_alone": alone})


async def view(harness: Harness, leaf: str, pairs: int = 16) -> Json:
    chain = harness.talk.chain(leaf)
    path = [(identity, digest) for identity, _, digest in chain][::-1][:pairs]
    response = await post(harness, "view", path=path, depth=len(chain))
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def summarised(harness: Harness) -> str:
    """A chat whose requests carry a summary; its leaf."""
    harness.talk.window = 8192
    leaf = await harness.long_chat()
    await harness.drain()
    return leaf


async def audit(harness: Harness) -> list[tuple[str, str, Json]]:
    found = await rows(harness.runtime, "select actor, action, details from audit order by id")
    return [(one.actor, one.action, one.details) for one in found]


# What a user sees


async def test_a_user_sees_the_summary_that_the_model_is_sent(harness: Harness) -> None:
    leaf = await summarised(harness)
    sent = await harness.talk.ask(leaf)

    seen = await view(harness, leaf)

    bar, stands, summary = shown(seen["text"]).split("\n\n", 2)
    assert f"about {sent['tokens']['after']:,} of 8,192 tokens" in bar
    assert f"first {sent['covered_messages']} of {len(harness.talk.path(leaf))} messages" in stands
    assert summary == f"{sent['summary'].strip()}\n\nBoth buttons only close this window."
    assert not seen["left_alone"]


# Left alone


async def test_a_chat_that_is_left_alone_is_served_nothing_and_no_work_is_due(harness: Harness) -> None:
    leaf = await summarised(harness)
    assert (await harness.talk.ask(leaf))["status"] == "ready"

    await leave_alone(harness)

    for pairs in (64, 1):
        answer = await harness.talk.ask(leaf, pairs)
        assert answer["status"] == "not_needed"
        assert "summary" not in answer
    leaf = harness.talk.turns(20, leaf=leaf)
    assert await harness.talk.ingest(leaf) is False
    assert (await harness.chat()).due_at is None
    assert (await view(harness, leaf))["left_alone"]
    assert (await audit(harness))[-1] == ("user user-1", "chat.leave", {})


async def test_a_chat_that_is_left_alone_on_any_path_and_as_a_fork_is_served_nothing(harness: Harness) -> None:
    leaf = await summarised(harness)
    newest = harness.talk.turns(2, leaf=leaf)  # not ingested, so that the second statement answers
    assert (await harness.talk.ask(newest))["status"] == "ready"
    harness.talk.chat = "fork"
    await harness.talk.ingest(list(harness.talk.rows)[1])
    # Of a fork that is stored under its first messages only, and whose newest ones are asked about.
    body = harness.talk.question(leaf) | {"user_id": "user-1"}
    body["path"] = [one for one in body["path"] if one[0] not in list(harness.talk.rows)[:2]]
    body["sizes"] = body["sizes"][: len(body["path"])]

    async def asked() -> Json:
        answer: Json = (await harness.talk.client.post("/v1/chats/fork/context", json=body)).json()
        return answer

    assert (await asked())["status"] == "ready", "what its user's other chat has"
    await harness.talk.client.post("/v1/chats/fork/left-alone", json={"user_id": "user-1", "left_alone": True})
    assert (await asked())["status"] == "unknown"
    harness.talk.chat = "chat-1"
    assert (await harness.talk.ask(newest))["status"] == "ready", "the other chat is not left alone"
    await leave_alone(harness)
    assert (await harness.talk.ask(newest))["status"] == "not_needed"


# Compacted by Open WebUI itself


async def test_a_chat_that_open_webui_compacts_is_stored_and_no_work_becomes_due(harness: Harness) -> None:
    leaf = harness.talk.turns(20)

    assert await harness.talk.ingest(leaf, compactor="open-webui") is False

    assert (await harness.chat()).due_at is None
    assert (await harness.talk.ask(leaf))["known"] == leaf
    assert await harness.compress() is None
    assert harness.llm.requests == []


async def test_work_that_was_due_before_ends_without_a_call(harness: Harness) -> None:
    leaf = await harness.long_chat()

    await harness.talk.ingest(leaf, compactor="open-webui")
    await harness.drain()

    assert harness.llm.requests == []
    assert await harness.made() == []
    assert await harness.runs() == []
