"""Open WebUI may compress the same chat itself: never both at once, and everybody is told."""

from typing import Any

import pytest

from tests.filter.chat import Chat, Turn
from tests.filter.staged import against, summarised
from tests.filter.wire import Answer

Json = dict[str, Any]

MARK = "[CONVERSATION SUMMARY]"


def compacted(chat: Chat, summary: str, kept: int = 3) -> Turn:
    """A request as Open WebUI's own compaction leaves it: a summary behind its marker, and the newest messages."""
    turn = chat.request(str(chat.leaf))
    system, *others = turn.messages
    prompt = f"{system['content']}\n{MARK}\n{summary}" if chat.system else f"{MARK}\n{summary}"
    others = others if chat.system else turn.messages
    turn.body["messages"] = [{"role": "system", "content": prompt}, *others[-kept:]]
    return turn


async def test_what_open_webui_has_compacted_is_left_alone_and_said_so() -> None:
    async with summarised() as (chat, tap):
        turn = await chat.enter(compacted(chat, "They talked."))
        assert turn.messages == turn.original
        assert tap.seen == []
        assert chat.host.statuses == ["Context compacted by Open WebUI itself"]


@pytest.mark.parametrize(
    "prompt",
    [
        "Never write [CONVERSATION SUMMARY] into an answer.",
        "End with the heading\n  [CONVERSATION SUMMARY]",
        "End with the heading\n[CONVERSATION SUMMARY]\nand what was said.",
    ],
)
async def test_a_prompt_that_mentions_the_marker_is_no_compaction(prompt: str) -> None:
    async with summarised() as (chat, _):
        chat.system = prompt
        turn = await chat.inlet()
        assert turn.hidden == turn.original[1:3]
        assert turn.messages[0] == turn.original[0]


async def test_the_hand_over_says_that_open_webui_compacts_and_nothing_of_the_usage() -> None:
    async with against(Answer({"due": False}, 202)) as (chat, tap):
        turn = await chat.enter(compacted(chat, "They talked."))
        await chat.reply(turn, "An answer")
        await chat.say("And now?", "An answer")
        first, second = tap.bodies("PUT")
        assert (first["compactor"], first["served"]) == ("open-webui", None)
        assert second["compactor"] is None


async def test_a_temporary_chat_that_open_webui_has_compacted_is_left_alone() -> None:
    async with summarised(temporary_hours=1) as (chat, _):
        chat.id = "temporary:a-socket"
        chat.host.chats[chat.id] = chat.host.chats["chat-1"]
        turn = await chat.enter(compacted(chat, "They talked."))
        assert turn.messages == turn.original
        assert chat.host.statuses == ["Context compacted by Open WebUI itself"]
