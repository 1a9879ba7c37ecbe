"""What goes first when a request is too large: old tool results, then turns.

`inlet` sees the older turns, and `request` each model call of a long tool loop.
"""

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from filter_stub.precis_filter import LEFT_OUT
from service.transcript import Native
from service.transcript.steps import sent_tokens
from tests.filter.chat import Turn, filler, pairs_are_whole
from tests.filter.client import Client, asks, says, step
from tests.filter.staged import UNKNOWN, against
from tests.filter.wire import HangUp, Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]

WINDOW = 8192
CUT = "characters were left out here"


def results(messages: list[Native]) -> list[str]:
    return [str(one["content"]) for one in messages if one["role"] == "tool"]


def shortened(messages: list[Native]) -> list[bool]:
    return [CUT in text for text in results(messages)]


def others(messages: list[Native]) -> list[Native]:
    return [one for one in messages if one["role"] != "tool"]


def turns(count: int, tokens: int = 900) -> list[Native]:
    """Turns whose tool result is most of them."""
    out: list[Native] = []
    for number in range(count):
        loop = step(f"c{number}", filler(f"r{number}", tokens))
        out += [asks(f"Question {number}"), *loop, says(f"Answer {number}")]
    return out


def loop_of(steps: int, tokens: int = 1200) -> list[Native]:
    return [one for number in range(steps) for one in step(f"c{number}", filler(f"r{number}", tokens))]


@pytest_asyncio.fixture(loop_scope="module")
async def client() -> AsyncIterator[tuple[Client, Wire]]:
    """A client in a window of 8192 tokens; the service knows nothing of it."""
    async with against(UNKNOWN, window=WINDOW) as (chat, tap):
        yield Client(chat.filter, window=chat.window), tap


@pytest_asyncio.fixture(loop_scope="module")
async def running(client: tuple[Client, Wire]) -> tuple[Client, Turn]:
    """A turn that has just begun, after an older one with a large tool result of its own."""
    older = [asks("Before?"), *step("old", filler("oldresult", 900)), says("Done.")]
    asked = client[0]
    return asked, await asked.send([{"role": "system", "content": "Be brief."}, *older, asks("Now look everywhere.")])


async def call(client: Client, turn: Turn, loop: list[Native]) -> list[Native]:
    """One model call: Open WebUI hands the list as inlet left it, and all steps so far, whole."""
    given = [*turn.messages, *loop]
    before = copy.deepcopy(given)
    body: Json = {"model": "m", "stream": True, "messages": given}
    out = await client.filter.request(
        body, __metadata__=turn.metadata, __model__={}, __event_emitter__=client.host.emit
    )
    assert out is body
    assert given == before, "what Open WebUI saves of the turn stays whole"
    sent: list[Native] = body["messages"]
    assert sent_tokens(sent) <= WINDOW
    assert pairs_are_whole(sent)
    return sent


# Older turns


async def test_one_line_tells_what_was_left_out_and_each_model_call_has_the_note() -> None:
    """Each call of the loop begins with the list of the first one."""
    async with against(HangUp(), window=4096) as (chat, _):
        chat.leaf = None
        chat.grow(8, 300)
        chat.ask("So?")
        turn = chat.request(str(chat.leaf))
        turn.original = list(turn.messages)
        turn.body["tools"] = [{"type": "function", "function": {"name": "f", "description": filler("tool", 900)}}]
        for _ in range(3):
            with chat.host.importable():
                await chat.filter.request(turn.body, __metadata__=turn.metadata, __event_emitter__=chat.host.emit)
            left_out = len(turn.original) - len(turn.messages)
            assert left_out > 0
            assert chat.host.statuses == [f"Left out {left_out} older messages to make room"]
            assert str(turn.messages).count(LEFT_OUT) == 1
            # Open WebUI puts its prompt back after a tool that is cited.
            turn.body["messages"] = [turn.original[0], *turn.messages[1:]]


@pytest.mark.parametrize("answer", ["It is tall.", filler("tall", 6000)], ids=["short", "larger than the window"])
async def test_a_question_that_is_answered_again_as_told_stays_with_its_answer_and_the_instruction(answer: str) -> None:
    async with against(HangUp(), window=4096) as (chat, tap):
        chat.leaf = None
        chat.grow(8, 400)
        question = chat.ask("What is the height of the tower?")
        more = [says(answer), asks("Say it in metres.")]
        turn = await chat.inlet(question, *more, regeneration_message_id="a17")
        assert tap.bodies("POST")[0]["native"]["guided"]
        assert LEFT_OUT in str(turn.messages)
        again, tall, instruction = turn.messages[-3:]
        assert (again, instruction) == (asks("What is the height of the tower?"), more[1])
        assert str(tall["content"]).startswith(answer[:50])


# A long tool loop


async def test_a_loop_that_leaves_room_for_the_answer_is_not_touched_and_asks_nobody(
    client: tuple[Client, Wire], running: tuple[Client, Turn]
) -> None:
    asked, turn = running
    client[1].seen.clear()
    loop = loop_of(2)
    assert await call(asked, turn, loop) == [*turn.messages, *loop]
    assert asked.host.statuses == []
    assert client[1].seen == []


async def test_the_oldest_results_of_the_running_turn_keep_how_they_begin_and_end(
    running: tuple[Client, Turn],
) -> None:
    client, turn = running
    loop = [*step("small", "42"), *loop_of(7)]
    sent = await call(client, turn, loop)
    _, small, *flags = shortened(sent)
    assert not small
    assert flags == sorted(flags, reverse=True)
    assert 0 < sum(flags) < 7
    assert others(sent) == others([*turn.messages, *loop])
    whole, short = filler("r0", 1200), results(sent)[2]
    assert short.startswith(whole[:400])
    assert short.endswith(whole[-200:])
    assert f"{len(whole) - 600} characters were left out here" in short
    assert len(short) < 800
    again = {"model": "m", "messages": copy.deepcopy(sent)}
    await client.filter.request(again, __metadata__=turn.metadata)
    assert again["messages"] == sent, "a second pass changes nothing"


async def test_the_latest_step_is_whole_however_large_it_is(running: tuple[Client, Turn]) -> None:
    """Two calls at once are one step."""
    client, turn = running
    one, first = step("p1", filler("parallel1", 3000))
    two, second = step("p2", filler("parallel2", 3000))
    both = {**one, "tool_calls": [*one["tool_calls"], *two["tool_calls"]]}
    sent = await call(client, turn, [*loop_of(3), both, first, second])
    assert sent[-3:] == [both, first, second]
    assert shortened(sent)[1]


async def test_the_note_is_gone_in_a_later_call_in_which_nothing_is_left_out(client: tuple[Client, Wire]) -> None:
    """The newest result stays whole, and turns go for it; once the model has read it, a part of it is enough."""
    older = [one for number in range(4) for one in (asks(f"Question {number}"), says(filler(f"a{number}", 600)))]
    turn = await client[0].send([{"role": "system", "content": "Be brief."}, *older, asks("Look it up.")])
    large = step("large", filler("large", 6000))
    first = await call(client[0], turn, large)
    second = await call(client[0], turn, [*large, *step("small", "42")])
    assert LEFT_OUT in str(first[0])
    assert LEFT_OUT not in str(second)
    assert others(second)[:9] == turn.messages[:9]


async def test_the_beginning_of_the_request_changes_only_now_and_then(running: tuple[Client, Turn]) -> None:
    """The provider caches by the longest equal beginning; results go in steps of an eighth of the window."""
    client, turn = running
    loop: list[Native] = []
    noted, changes = 0, 0
    for number in range(40):
        loop += step(f"c{number}", filler(f"r{number}", 250))
        sent = await call(client, turn, loop)
        if LEFT_OUT in str(sent):
            break
        now = sum(shortened(sent))
        assert now >= noted
        changes += now != noted
        noted = now
    assert noted > 12
    assert changes <= noted // 3


async def test_the_status_is_shown_once_a_turn_unless_the_admin_does_not_want_it(running: tuple[Client, Turn]) -> None:
    client, turn = running
    for steps in (6, 7, 8):
        await call(client, turn, loop_of(steps))
    assert client.host.statuses == ["Shortened older tool results to make room"]
    for shown in (True, False):
        client.filter.valves.show_status = shown
        await call(client, await client.send([asks("Again.")]), loop_of(7))
    assert len(client.host.statuses) == 2


async def test_a_call_after_one_whose_results_were_shortened_asks_for_no_summary(client: tuple[Client, Wire]) -> None:
    """Else they would stay shortened under a summary with which all would fit."""
    asked, tap = client
    turn = await asked.send([*turns(9), asks("So?")])
    assert any(shortened(turn.messages))
    tap.seen.clear()
    await call(asked, turn, loop_of(2))
    assert tap.asked == []
