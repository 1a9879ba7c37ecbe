"""What the service has missed of a branch is handed over while the request waits, if it would be cut otherwise."""

import pytest

from tests.conftest import Service
from tests.filter.chat import Chat, Turn, filler, working
from tests.filter.wire import Wire

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
