"""What goes first when a request is too large: old tool results, then turns but for what users said in them."""

import copy
from typing import Any

import pytest

from filter_stub.precis_filter import LEFT_OUT, LEFT_OUT_END
from service.transcript import Native
from service.transcript.steps import sent_tokens
from tests.filter.chat import filler, pairs_are_whole
from tests.filter.client import Client, asks, says, step
from tests.filter.staged import against
from tests.filter.wire import Answer, HangUp

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]

WINDOW = 8192
CUT = "characters were left out here"
AWAY = Answer({"status": "unknown"})


def turns(count: int, tokens: int = 900) -> list[Native]:
    """Turns whose tool result is most of them."""
    out: list[Native] = []
    for number in range(count):
        loop = step(f"c{number}", filler(f"r{number}", tokens))
        out += [asks(f"Question {number}"), *loop, says(f"Answer {number}")]
    return out


def shortened(messages: list[Native]) -> list[bool]:
    return [CUT in str(one["content"]) for one in messages if one["role"] == "tool"]


async def test_the_oldest_results_of_older_turns_lose_their_middle_and_no_turn_goes() -> None:
    async with against(AWAY, window_tokens=WINDOW) as (chat, _):
        turn = await Client(chat.filter).send([*turns(8), asks("So?")])
    assert sent_tokens(turn.messages) <= WINDOW
    assert len(turn.messages) == len(turn.original)
    flags = shortened(turn.messages)
    assert flags == sorted(flags, reverse=True)
    assert 0 < sum(flags) < len(flags)
    assert pairs_are_whole(turn.messages)
    others = [one for one in turn.messages if one["role"] != "tool"]
    assert others == [one for one in turn.original if one["role"] != "tool"]


async def test_what_is_shortened_stays_the_same_over_several_requests() -> None:
    async with against(AWAY, window_tokens=WINDOW) as (chat, _):
        client = Client(chat.filter)
        sent = turns(8)
        seen = []
        for number in range(12):
            sent += [asks(f"More {number}?"), says("Yes, that is so. " * 6)]
            turn = await client.send([*sent, asks("So?")])
            assert sent_tokens(turn.messages) <= WINDOW
            seen.append(tuple(shortened(turn.messages)))
        assert len(set(seen)) <= 4


async def test_results_of_the_newest_turn_stay_while_those_of_older_ones_are_enough() -> None:
    async with against(AWAY, window_tokens=WINDOW) as (chat, _):
        loop = [*step("n1", filler("new1", 900)), *step("n2", filler("new2", 900))]
        turn = await Client(chat.filter).send([*turns(7), asks("Look."), *loop])
    assert turn.messages[-4:] == loop
    assert any(shortened(turn.messages))


async def test_a_turn_that_goes_leaves_what_its_user_said() -> None:
    said = [asks(f"Wish {number}: keep it below {number} bar. " + "Please. " * 200) for number in range(8)]
    messages = [one for ask in said for one in (ask, says(filler("answer", 600)))]
    async with against(HangUp(), window_tokens=WINDOW) as (chat, _):
        turn = await Client(chat.filter).send([*messages, asks("So?")])
    note = str(turn.messages[0]["content"])
    assert note.startswith(LEFT_OUT)
    assert note.endswith(LEFT_OUT_END)
    assert "- Wish 0: keep it below 0 bar. Please." in note
    assert len(note) < 2500
    assert sent_tokens(turn.messages) <= WINDOW


async def test_the_newest_words_stay_where_there_is_no_room_for_all() -> None:
    messages = [one for number in range(120) for one in (asks(f"Wish {number}. " + "Please. " * 60), says("Noted."))]
    async with against(HangUp(), window_tokens=2048) as (chat, _):
        turn = await Client(chat.filter).send([*messages, asks("So?")])
    note = str(turn.messages[0]["content"])
    left_out = len(messages) + 2 - len(turn.messages)
    assert f"Wish {left_out // 2 - 1}." in note
    assert "Wish 0." not in note


async def test_one_line_tells_what_inlet_and_the_model_call_have_cut_together() -> None:
    """Open WebUI calls `request` after inlet, with retrieved texts and tools that were not there before."""
    async with against(HangUp(), window_tokens=4096) as (chat, _):
        chat.filter._hooked = True
        chat.leaf = None
        chat.grow(8, 300)
        chat.ask("So?")
        turn = await chat.inlet()
        assert chat.host.statuses == []
        by_inlet = len(turn.original) + 1 - len(turn.messages)
        base = copy.deepcopy(turn.messages)
        for _ in range(3):  # each call of a loop begins with the list as inlet left it
            turn.body["messages"] = copy.deepcopy(base)
            turn.body["tools"] = [{"type": "function", "function": {"name": "f", "description": filler("tool", 900)}}]
            await chat.filter.request(turn.body, __metadata__=turn.metadata, __event_emitter__=chat.host.emit)
        left_out = len(turn.original) + 1 - len(turn.messages)
        assert left_out > by_inlet > 0
        assert chat.host.statuses == [f"Left out {left_out} older messages: Precis is away"]
        assert str(turn.messages).count(LEFT_OUT) == 1


async def test_summarising_is_told_only_of_a_request_that_was_cut() -> None:
    pending = {"status": "pending", "tokens": {"before": 9, "after": 9}, "status_text": "Summarising …"}
    async with against(Answer(pending), window_tokens=4096) as (chat, _):
        await chat.inlet()
        assert chat.host.statuses == []
        chat.leaf = None
        chat.grow(8)
        chat.ask("So?")
        await chat.inlet()
        (line,) = chat.host.statuses
        assert line.startswith("Summarising …; left out ")
        assert line.endswith(" older messages: no summary is ready yet")


async def test_what_a_hook_learns_is_known_to_the_next_one_also_where_open_webui_copies_the_metadata() -> None:
    async with against(AWAY) as (chat, tap):
        turn = await chat.inlet()
        turn.body["tools"] = [{"type": "function", "function": {"name": "f", "description": filler("tool", 900)}}]
        await chat.filter.request(turn.body, __metadata__={**turn.metadata})
        await chat.reply(turn, "An answer")
        (body,) = tap.bodies("PUT")
        assert body["overhead"] > 500
