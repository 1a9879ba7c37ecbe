"""A long tool loop inside one turn: before each model call its oldest results become notes, never the latest step's."""

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from filter_stub.precis_filter import LEFT_OUT
from service.transcript import Native
from service.transcript.steps import sent_tokens
from tests.builders import capture
from tests.filter.chat import Turn, filler, pairs_are_whole
from tests.filter.client import Client, asks, says, step
from tests.filter.staged import against
from tests.filter.wire import Answer, Wire

Json = dict[str, Any]

WINDOW = 8192
NOTE = "characters were left out here"


@pytest_asyncio.fixture
async def client() -> AsyncIterator[tuple[Client, Wire]]:
    """A client in a window of 8192 tokens; the service knows nothing of it."""
    async with against(Answer({"status": "unknown"}), window_tokens=WINDOW) as (chat, tap):
        yield Client(chat.filter), tap


@pytest_asyncio.fixture
async def running(client: tuple[Client, Wire]) -> tuple[Client, Turn]:
    """A turn that has just begun, after an older one with a large tool result of its own."""
    older = [asks("Before?"), *step("old", filler("oldresult", 900)), says("Done.")]
    asked = client[0]
    return asked, await asked.send([{"role": "system", "content": "Be brief."}, *older, asks("Now look everywhere.")])


async def call(client: Client, turn: Turn, loop: list[Native], **body: object) -> list[Native]:
    """One model call: Open WebUI hands the list as inlet left it, and all steps so far, whole."""
    made: Json = {
        "model": "m",
        "stream": True,
        "messages": [*copy.deepcopy(turn.messages), *copy.deepcopy(loop)],
        **body,
    }
    out = await client.filter.request(
        made, __metadata__=turn.metadata, __model__={}, __event_emitter__=client.host.emit
    )
    assert out is made
    sent: list[Native] = made["messages"]
    assert pairs_are_whole(sent)
    return sent


def results(messages: list[Native]) -> list[str]:
    return [str(one["content"]) for one in messages if one["role"] == "tool"]


def loop_of(steps: int, tokens: int = 1200) -> list[Native]:
    return [one for number in range(steps) for one in step(f"c{number}", filler(f"r{number}", tokens))]


async def test_a_loop_that_leaves_room_for_the_answer_is_not_touched(running: tuple[Client, Turn]) -> None:
    client, turn = running
    loop = loop_of(2)
    assert await call(client, turn, loop) == [*turn.messages, *loop]
    assert client.host.statuses == []


async def test_the_oldest_results_of_the_running_turn_become_notes(running: tuple[Client, Turn]) -> None:
    client, turn = running
    loop = loop_of(7)
    sent = await call(client, turn, loop)
    assert sent_tokens(sent) <= WINDOW
    notes = [(NOTE in text) for text in results(sent)[1:]]
    assert notes == sorted(notes, reverse=True)
    assert 0 < sum(notes) < 7
    assert [one for one in sent if one["role"] != "tool"] == [
        one for one in [*turn.messages, *loop] if one["role"] != "tool"
    ]


async def test_a_shortened_result_keeps_how_it_begins_and_how_it_ends(running: tuple[Client, Turn]) -> None:
    client, turn = running
    sent = await call(client, turn, loop_of(7))
    whole, short = filler("r0", 1200), results(sent)[1]
    assert short.startswith(whole[:400])
    assert short.endswith(whole[-200:])
    assert f"{len(whole) - 600} characters were left out here" in short
    assert len(short) < 800


async def test_the_latest_step_is_whole_however_large_it_is(running: tuple[Client, Turn]) -> None:
    """Two calls at once are one step."""
    client, turn = running
    one, first = step("p1", filler("parallel1", 1800))
    two, second = step("p2", filler("parallel2", 1800))
    both = {**one, "tool_calls": [*one["tool_calls"], *two["tool_calls"]]}
    loop = [*loop_of(3), both, first, second]
    sent = await call(client, turn, loop)
    assert sent[-3:] == [both, first, second]
    assert results(sent)[1].find(NOTE) > 0


async def test_small_results_stay(running: tuple[Client, Turn]) -> None:
    client, turn = running
    loop = [*step("small", "42"), *loop_of(7)]
    sent = await call(client, turn, loop)
    assert results(sent)[1] == "42"
    assert results(sent)[2].find(NOTE) > 0


async def test_what_open_webui_saves_of_the_turn_stays_whole(running: tuple[Client, Turn]) -> None:
    client, turn = running
    messages = [*turn.messages, *loop_of(7)]
    before = copy.deepcopy(messages)
    body = {"model": "m", "messages": messages}
    await client.filter.request(body, __metadata__=turn.metadata)
    assert messages == before
    assert body["messages"] != before


async def test_a_second_pass_changes_nothing(running: tuple[Client, Turn]) -> None:
    client, turn = running
    sent = await call(client, turn, loop_of(7))
    body = {"model": "m", "messages": copy.deepcopy(sent)}
    await client.filter.request(body, __metadata__=turn.metadata)
    assert body["messages"] == sent


async def test_the_beginning_of_the_request_changes_only_now_and_then(running: tuple[Client, Turn]) -> None:
    """The provider caches by the longest equal beginning; results go in steps of an eighth of the window."""
    client, turn = running
    loop: list[Native] = []
    noted, changes = 0, 0
    for number in range(40):
        loop += step(f"c{number}", filler(f"r{number}", 250))
        sent = await call(client, turn, loop)
        assert sent_tokens(sent) <= WINDOW
        if LEFT_OUT in str(sent):
            break
        now = sum((NOTE in text) for text in results(sent))
        assert now >= noted
        changes += now != noted
        noted = now
    assert noted > 12
    assert changes <= noted // 3


async def test_the_status_is_shown_once_a_turn(running: tuple[Client, Turn]) -> None:
    client, turn = running
    for steps in (6, 7, 8):
        await call(client, turn, loop_of(steps))
    assert client.host.statuses == ["Shortened older tool results to make room"]
    another = await client.send([asks("Again.")])
    await call(client, another, loop_of(7))
    assert len(client.host.statuses) == 2


async def test_no_status_when_the_admin_does_not_want_one(running: tuple[Client, Turn]) -> None:
    client, turn = running
    client.filter.valves.show_status = False
    await call(client, turn, loop_of(7))
    assert client.host.statuses == []


async def test_the_service_is_asked_nothing_in_a_loop(client: tuple[Client, Wire]) -> None:
    asked, tap = client
    turn = await asked.send([asks("Look.")])
    tap.seen.clear()
    await call(asked, turn, loop_of(7))
    assert tap.seen == []


async def test_when_notes_are_not_enough_older_turns_go_too(running: tuple[Client, Turn]) -> None:
    client, turn = running
    sent = await call(client, turn, step("huge", filler("huge", 9000)))
    assert sent_tokens(sent) <= WINDOW
    assert sent[1]["role"] == "system"
    assert str(sent[1]["content"]).startswith(LEFT_OUT)
    assert sent[2] == asks("Now look everywhere.")
    assert "characters were left out here" in results(sent)[-1]


async def test_results_become_notes_also_where_everything_may_pass(running: tuple[Client, Turn]) -> None:
    """`on_overflow` is about turns."""
    client, turn = running
    client.filter.valves.on_overflow = "pass"
    sent = await call(client, turn, loop_of(9))
    assert results(sent)[1].find(NOTE) > 0


async def test_a_recorded_loop_of_open_webui_with_a_small_window() -> None:
    hook = capture("o2_request_hook").hook("011_request")
    async with against(Answer({"status": "unknown"}), window_tokens=2048) as (chat, _):
        body = copy.deepcopy(hook.body)
        metadata = {**hook.metadata, "user_id": "user-1"}
        await chat.filter.request(body, __metadata__=metadata)
        assert [one["role"] for one in body["messages"]] == [one["role"] for one in hook.messages]
        first, second = results(body["messages"])
        assert NOTE in first
        assert second == results(hook.messages)[1]
