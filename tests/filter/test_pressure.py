"""A request that is too large when it comes: of a chat that nobody has seen before."""

import time

from service.request.fit import LEFT_OUT
from service.transcript import read_text
from tests.conftest import Service
from tests.filter.chat import Chat, Turn, filler, working

TURNS = 12


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
