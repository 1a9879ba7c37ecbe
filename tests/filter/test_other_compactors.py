"""Who else compresses the same chat: Open WebUI itself, or the provider. Never both at once, and everybody is told."""

import copy
from typing import Any

import pytest

from filter_stub.precis_filter import LEFT_OUT, NOTED, OWN_COMPACTION, SUMMARY
from tests.builders import capture
from tests.filter.chat import Chat, Turn, filler, ingested
from tests.filter.staged import MADE, UNKNOWN, against, good_answer, summarised
from tests.filter.wire import Answer, Wire

Json = dict[str, Any]

PROVIDERS: list[Json] = [
    {"transforms": ["middle-out"]},
    {"truncation": "auto"},
    {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
]


def compacted(chat: Chat, summary: str, kept: int = 3) -> Turn:
    """A request as Open WebUI's own compaction leaves it: a summary behind its marker, and the newest messages."""
    turn = chat.request(str(chat.leaf))
    system, *others = turn.messages
    prompt = f"{system['content']}\n{OWN_COMPACTION}\n{summary}" if chat.system else f"{OWN_COMPACTION}\n{summary}"
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


async def test_the_hand_over_says_that_open_webui_compacts_and_nothing_of_the_usage() -> None:
    async with against(Answer({"due": False}, 202)) as (chat, tap):
        turn = await chat.enter(compacted(chat, "They talked."))
        await chat.reply(turn, "An answer")
        await chat.say("And now?", "An answer")
        first, second = tap.bodies("PUT")
        assert (first["compactor"], first["served"]) == ("open-webui", None)
        assert second["compactor"] is None


async def test_what_open_webui_has_compacted_is_still_kept_inside_the_window() -> None:
    async with against(Answer({}), window_tokens=4096) as (chat, _):
        chat.ask(filler("pasted", 9000))
        turn = await chat.enter(compacted(chat, "They talked."))
        assert turn.messages[0] == turn.original[0]
        assert len(str(turn.messages[-1])) < len(str(turn.original[-1])) // 2


# --- the provider ---


@pytest.mark.parametrize("asked", PROVIDERS)
async def test_where_the_provider_trims_nothing_is_cut_here(asked: Json) -> None:
    async with against(UNKNOWN, window_tokens=4096) as (chat, tap):
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
    async with against(UNKNOWN, window_tokens=4096) as (chat, _):
        chat.ask(filler("pasted", 9000))
        turn = chat.request(str(chat.leaf))
        turn.body |= asked
        await chat.enter(turn)
        assert turn.messages != turn.original


# --- our summary where Open WebUI keeps its own ---


async def settled(chat: Chat, tap: Wire, until: str = "a2", *, valve: bool = True, **changed: object) -> Turn:
    """A request that is served a summary; and what it stores in Open WebUI is stored."""
    chat.filter.valves.write_context_summary = valve
    tap.behaviour = Answer(good_answer(chat, until) | changed)
    turn = chat.request(str(chat.leaf))
    with chat.host.importable():
        await chat.enter(turn)
        await ingested(chat.filter)
    return turn


def shown_at(chat: Chat) -> dict[str, str]:
    return {key: row["contextSummary"] for key, row in chat.rows.items() if "contextSummary" in row}


async def test_a_summary_is_written_to_the_first_message_that_it_does_not_cover() -> None:
    async with against(Answer({})) as (chat, tap):
        before = copy.deepcopy(chat.host.chats)
        assert (await settled(chat, tap, valve=False)).served
        assert chat.host.chats == before, "by default nothing is written"
        turn = await settled(chat, tap)
        assert turn.served
        assert shown_at(chat) == {"u3": MADE}
        assert chat.rows["u3"]["content"] == "Question 1"


async def test_the_same_summary_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    async with against(Answer({})) as (chat, tap):
        real = chat.host.upsert_message_to_chat_by_id_and_message_id

        async def counted(chat_id: str, message_id: str, message: Json) -> None:
            written.append(message_id)
            await real(chat_id, message_id, message)

        monkeypatch.setattr(chat.host, "upsert_message_to_chat_by_id_and_message_id", counted)
        for _ in range(3):
            await settled(chat, tap)
        assert written == ["u3"]
        await settled(chat, tap, summary=SUMMARY + "2 messages]\nThey talked more.")
        assert written == ["u3", "u3"]
        await settled(chat, tap, until="a4")
        assert written == ["u3", "u3", "u5"]


@pytest.mark.parametrize("system", ["You are a careful assistant.", ""])
async def test_our_own_summary_behind_open_webuis_marker_gives_way_to_the_newest_one(system: str) -> None:
    async with against(Answer({})) as (chat, tap):
        chat.system = system
        tap.behaviour = Answer(good_answer(chat, "a4") | {"summary": SUMMARY + "4 messages]\nNewer."})
        turn = await chat.enter(compacted(chat, MADE, kept=5))
        prompt = [{"role": "system", "content": system}] if system else []
        newest = {"role": "user", "content": SUMMARY + "4 messages]\nNewer."}
        noted = {"role": "assistant", "content": NOTED}
        assert turn.messages == [*prompt, newest, noted, *turn.original[-3:]]
        assert turn.metadata["precis"]["served"] == 7
        assert chat.host.statuses == ["Summarised 4 earlier messages: 9k → 3k tokens"]


async def test_our_own_summary_behind_open_webuis_marker_stays_when_the_service_is_away() -> None:
    async with against(Answer({}, 500)) as (chat, tap):
        turn = await chat.enter(compacted(chat, MADE, kept=5))
        assert tap.asked == ["POST context"]
        assert turn.messages == turn.original
        assert LEFT_OUT not in str(turn.messages)


async def test_a_summary_of_less_than_open_webui_has_left_out_is_not_used() -> None:
    """Messages between its end and the first that is shown would be hidden and not covered."""
    async with against(Answer({})) as (chat, tap):
        tap.behaviour = Answer(good_answer(chat, "a2"))
        turn = await chat.enter(compacted(chat, SUMMARY + "4 messages]\nNewer.", kept=3))
        assert turn.messages == turn.original
