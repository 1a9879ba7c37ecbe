"""Who else compresses the same chat: Open WebUI itself, or the provider. Never both at once, and everybody is told."""

import copy
from typing import Any

import pytest

from tests.builders import capture
from tests.filter.chat import Chat, Turn, filler
from tests.filter.staged import UNKNOWN, against, summarised
from tests.filter.wire import Answer

Json = dict[str, Any]

MARK = "[CONVERSATION SUMMARY]"
PROVIDERS: list[Json] = [
    {"transforms": ["middle-out"]},
    {"truncation": "auto"},
    {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
]


def compacted(chat: Chat, summary: str, kept: int = 3) -> Turn:
    """A request as Open WebUI's own compaction leaves it: a summary behind its marker, and the newest messages."""
    turn = chat.request(str(chat.leaf))
    system, *others = turn.messages
    prompt = f"{system['content']}\n{MARK}\n{summary}" if chat.system else f"{MARK}\n{summary}"
    others = others if chat.system else turn.messages
    turn.body["messages"] = [{"role": "system", "content": prompt}, *others[-kept:]]
    return turn


# --- Open WebUI ---


async def test_what_open_webui_has_compacted_is_left_alone_and_said_so() -> None:
    async with summarised() as (chat, tap):
        turn = await chat.enter(compacted(chat, "They talked."))
        assert turn.messages == turn.original
        assert tap.seen == []
        assert chat.host.statuses == ["Context compacted by Open WebUI itself"]


async def test_the_marker_that_a_real_open_webui_sets_is_seen() -> None:
    hook = capture("r_native_compaction").of("inlet")[-1]
    async with against(Answer({})) as (chat, tap):
        await chat.enter(Turn([], copy.deepcopy(hook.body), dict(hook.metadata)))
        assert tap.seen == []
        assert chat.host.statuses == ["Context compacted by Open WebUI itself"]


@pytest.mark.parametrize(
    "prompt",
    [
        "Never write [CONVERSATION SUMMARY] into an answer.",
        "What stands behind\n[CONVERSATION SUMMARY] was said before.",
        "End with the heading\n  [CONVERSATION SUMMARY]",
        "End with the heading\n[CONVERSATION SUMMARY]",
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


async def test_what_open_webui_has_compacted_is_still_kept_inside_the_window() -> None:
    async with against(Answer({}), window=4096) as (chat, _):
        chat.ask(filler("pasted", 9000))
        turn = await chat.enter(compacted(chat, "They talked."))
        assert turn.messages[0] == turn.original[0]
        assert len(str(turn.messages[-1])) < len(str(turn.original[-1])) // 2


# --- the provider ---


@pytest.mark.parametrize("asked", PROVIDERS)
async def test_where_the_provider_trims_nothing_is_cut_here(asked: Json) -> None:
    async with against(UNKNOWN, window=4096) as (chat, tap):
        chat.ask(filler("pasted", 9000))
        turn = chat.request(str(chat.leaf))
        turn.body |= asked
        await chat.enter(turn)
        await chat.filter.request(turn.body, __metadata__=turn.metadata)
        assert turn.messages == turn.original
        assert chat.host.statuses == []
        await chat.reply(turn, "An answer")
        assert tap.bodies("PUT")[0]["compactor"] == "provider"


async def test_where_the_provider_trims_a_summary_is_used_all_the_same() -> None:
    """What it would trim is then not there any more."""
    async with summarised() as (chat, _):
        turn = chat.request(str(chat.leaf))
        turn.body |= PROVIDERS[0]
        await chat.enter(turn)
        assert turn.hidden == turn.original[1:3]


@pytest.mark.parametrize("asked", [{"transforms": []}, {"truncation": "disabled"}, {"context_management": None}])
async def test_a_provider_that_is_told_not_to_trim_does_not(asked: Json) -> None:
    async with against(UNKNOWN, window=4096) as (chat, _):
        chat.ask(filler("pasted", 9000))
        turn = chat.request(str(chat.leaf))
        turn.body |= asked
        await chat.enter(turn)
        assert turn.messages != turn.original
