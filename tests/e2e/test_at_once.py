"""Each message is sent as soon as the last answer is there, to a summariser that takes its time for each call."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from service.transcript import native_tokens
from tests.e2e.model import Received, Reply
from tests.e2e.precis import fact
from tests.e2e.rig import WINDOW, Rig, filler
from tests.e2e.tab import Tab
from tests.e2e.view import check, facts, view
from tests.fakes.scripted_llm import Request

TURNS = 30
SUMMARISING = 4.0  # seconds of one call
ANSWERING = 1.0  # seconds of an answer of 450 tokens, which is quick
CORRECTS = {turn: turn - 5 for turn in range(7, TURNS, 5)}  # a turn, and the one whose fact it corrects


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def slow_summariser(rig: Rig) -> AsyncIterator[None]:
    """It takes so long for each call."""

    async def thinking(_: Request) -> None:
        # The time is the scenario: turns go on while a call takes as long as a slow model's.
        await asyncio.sleep(SUMMARISING)

    rig.summariser.thinking = thinking
    yield
    rig.summariser.thinking = None


def told(turn: int) -> str:
    """The fact that is new in a turn."""
    return fact(f"t{turn}")


def correction(turn: int) -> str:
    """Another value for the gate of an earlier turn; empty when nothing is corrected."""
    gate = f"t{CORRECTS[turn]}" if turn in CORRECTS else ""
    return fact(f"{gate}corrected").replace(f"{gate}corrected", gate) if gate else ""


def asked(turn: int) -> str:
    """What the user says: the facts are where no first line of it shows them."""
    return f"{filler(f'Turn {turn}, and you know how it went', 60)} {told(turn)} {correction(turn)} What now?"


async def converse(rig: Rig, tab: Tab, answering: float) -> list[set[str]]:
    """Plays all turns; returns for each which facts that hold are nowhere in its request."""
    turns: list[Received] = []

    def answer(received: Received) -> Reply:
        turns.append(received)
        begun = asyncio.Event()
        asyncio.get_running_loop().call_later(answering, begun.set)
        return Reply(filler(f"Answer to {received.question[:10]}", 450), hold=begun)

    rig.model.answer = answer
    for turn in range(TURNS):
        await tab.send(asked(turn))

    assert len(turns) == TURNS
    stored, path = await rig.checkpoints(str(tab.chat_id)), await rig.path(tab)
    for turn, received in enumerate(turns):
        check(received, stored, path[: 2 * turn + 1])
        assert rig.size(received) < WINDOW
    assert turns[-1].built
    assert sum(map(native_tokens, turns[-1].built.messages)) + turns[-1].tool_tokens > WINDOW
    return [holding(turn) - facts(received.messages) for turn, received in enumerate(turns)]


def holding(turn: int) -> set[str]:
    """The facts that were told up to a turn and not corrected since."""
    known = range(turn + 1)
    corrected = {told(CORRECTS[one]) for one in known if one in CORRECTS}
    return {told(one) for one in known} - corrected | corrections(turn)


def corrections(turn: int) -> set[str]:
    return {correction(one) for one in range(turn + 1)} - {""}


def too_much(lost: list[set[str]]) -> str:
    """What is wrong when more than one request loses anything, or one a correction; else nothing."""
    counts = {turn: len(one) for turn, one in enumerate(lost) if one}
    corrected = {turn: len(one & corrections(turn)) for turn, one in enumerate(lost) if one & corrections(turn)}
    return f"lost, by turn: {counts}; corrections of them: {corrected}" if len(counts) > 1 or corrected else ""


async def test_messages_sent_at_once_lose_nothing_and_no_correction_ever(rig: Rig, tab: Tab) -> None:
    lost = await converse(rig, tab, ANSWERING)

    assert not too_much(lost), too_much(lost)
    assert view(rig.model.received[-1]).summary
