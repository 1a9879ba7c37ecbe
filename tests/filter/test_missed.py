"""What the service has missed of a branch is handed over while the request waits, if it would be cut otherwise."""

import pytest

from tests.conftest import Service
from tests.filter.chat import Chat, Turn, filler, working
from tests.filter.wire import Answer, Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS = 12


def told(number: int) -> str:
    return f"Remember that pump {number} runs at {number + 100} bar."


async def long_chat(chat: Chat) -> None:
    """Above the window of 8192 tokens; the service has seen none of it."""
    del chat.filter._excess  # which `never_cuts` has set
    for number in range(TURNS):
        await chat.say_nothing_of(told(number), filler(f"answer{number}", 700))
    chat.ask("How far are we?")


def missing(turn: Turn, numbers: range = range(TURNS)) -> list[int]:
    """The facts that are nowhere in the request."""
    return [number for number in numbers if f"{number + 100} bar" not in str(turn.messages)]


async def test_the_first_request_of_a_long_chat_has_all_of_it(chat: Chat, service: Service, tap: Wire) -> None:
    await long_chat(chat)
    async with working(service.runtime):
        turn = await chat.inlet()
    assert missing(turn) == []
    assert turn.served
    assert tap.asked[:3] == ["POST context", "POST context", "PUT transcript"]
    assert len(chat.host.statuses) == 1
    chat.answer("Far.")
    tap.seen.clear()
    await chat.outlet(turn)
    assert [[one["role"] for one in body["messages"]] for body in tap.bodies("PUT")] == [["assistant"]]
    assert [body["outcome"] for body in tap.bodies("PUT")] == ["compressed"]


async def test_after_an_edit_in_place_no_turn_is_missing_and_the_edited_text_is_there(
    chat: Chat, service: Service
) -> None:
    await long_chat(chat)
    async with working(service.runtime):
        turn = await chat.inlet()
        await chat.reply(turn, "Far.")
        row = next(row for row in chat.path() if row["content"] == told(3))
        chat.rows[row["id"]]["content"] = "Remember that pump 3 runs at 999 bar."
        chat.ask("And now?")
        turn = await chat.inlet()
    assert missing(turn) == [3]
    assert "999 bar" in str(turn.messages)
    assert turn.served


async def test_what_was_lost_while_precis_was_away_is_read_again(chat: Chat, service: Service, tap: Wire) -> None:
    """The filter remembers the path from outlet, without texts; the hand-over had failed."""
    await long_chat(chat)
    url, tap.behaviour = tap.behaviour, Answer({}, 500)
    turn = await chat.inlet()
    await chat.reply(turn, "Far.")
    tap.behaviour = url
    chat.filter._failures = 0
    chat.ask("And now?")
    async with working(service.runtime):
        turn = await chat.inlet()
    assert missing(turn) == []


async def test_nobody_waits_longer_than_the_valve_says(chat: Chat, tap: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker runs: the summary never comes."""
    await long_chat(chat)
    monkeypatch.setitem(type(chat.filter).inlet.__globals__, "LONGEST_WAIT", 0.05)
    turn = await chat.inlet()
    assert [body["wait"] for body in tap.bodies("POST")] == [None, None, 0.05]
    assert not turn.served
    assert "Older messages were left out here" in str(turn.messages)
    assert [body["outcome"] for body in tap.bodies("PUT")] == [None]  # the turn has only begun
    chat.answer("Far.")
    await chat.outlet(turn)
    assert [body["outcome"] for body in tap.bodies("PUT")] == [None, "truncated"]
