"""Requests that are too large when they come: a chat that nobody has seen before, and a turn of many calls."""

import copy
import time

from service.request.fit import LEFT_OUT
from service.transcript import Native, read_text
from tests.conftest import Service, drain
from tests.filter.chat import Chat, Turn, filler, pairs_are_whole, working
from tests.filter.checks import Call, listen
from tests.filter.client import step

TURNS = 12
WINDOW = 8192
CALLS = 64


def told(number: int) -> str:
    return f"Remember that pump {number} runs at {number + 100} bar."


async def long_chat(chat: Chat) -> None:
    """Above the window; the service has seen none of it."""
    for number in range(TURNS):
        await chat.say_nothing_of(told(number), filler(f"answer{number}", 700))
    chat.ask("How far are we?")


def missing(turn: Turn) -> list[int]:
    """The facts that are nowhere in the request."""
    return [number for number in range(TURNS) if f"{number + 100} bar" not in str(turn.messages)]


async def test_the_first_request_of_a_long_chat_has_all_of_it(chat: Chat, service: Service) -> None:
    await long_chat(chat)
    async with working(service.runtime):
        turn = await chat.inlet()
    assert turn.served
    assert missing(turn) == []
    assert LEFT_OUT not in str(turn.messages)
    text, line = chat.host.statuses
    assert text == turn.summary
    assert line.startswith("Summarised ")


async def test_nobody_waits_longer_than_the_valve_says(chat: Chat) -> None:
    """No worker runs: the summary never comes."""
    await long_chat(chat)
    chat.filter.valves.timeout = 4.0
    began = time.monotonic()
    turn = await chat.inlet()
    assert time.monotonic() - began < 4.0
    assert not turn.served
    assert LEFT_OUT in read_text(turn.messages[0])
    (line,) = chat.host.statuses
    assert line.startswith("Left out ")


async def test_a_turn_of_many_calls_never_outgrows_the_window(chat: Chat, service: Service) -> None:
    """Its summary stays the same, and of its calls the newest one stays whole."""
    chat.window = WINDOW
    chat.grow(9, 350)
    await chat.say("Before?", "Yes.")
    await drain(service.runtime)
    chat.ask("Now look everywhere.")
    answers = listen(chat.filter)
    turn = await chat.inlet()
    assert turn.served
    steps: list[Native] = []
    for number in range(CALLS):
        steps += step(f"c{number}", filler(f"result{number}", 250))
        given = [*turn.messages, *copy.deepcopy(steps)]
        body = {**turn.body, "messages": given}
        with chat.host.importable():
            await chat.filter.request(body, __metadata__=turn.metadata, __event_emitter__=chat.host.emit)
        first, *_, now = answers[turn.metadata["precis"]["id"]]
        sent = body["messages"]
        Call(given, now, sent, [], WINDOW, missed=first["left_out"]).check()
        assert pairs_are_whole(sent)
        assert sent[-2:] == given[-2:], "the newest call and its result"
        assert [read_text(one) for one in sent].count(turn.summary) == 1
        assert any(read_text(one) == "Now look everywhere." for one in sent)
    assert sum("left out here" in read_text(one) for one in sent) < CALLS
    assert len(sent) > 10, "as many calls as fit stay"
