"""A long chat with native tool calls in a window of 8192 tokens: what reaches the model, turn after turn.

What users do to the tree of a chat is in `test_chat_trees.py`.
"""

from typing import Any

import pytest

from filter_stub.precis_filter import NOTED
from tests.conftest import Service, drain
from tests.filter.chat import Chat, Turn, filler, native, tool_answer
from tests.filter.wire import Wire
from tests.service.talk import opened

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def long_chat(chat: Chat, service: Service, turns: int = 8) -> None:
    """A chat above the window, with a summary ready."""
    for number in range(turns):
        word = f"t{number}"
        await chat.say_nothing_of(filler(f"question-{word}", 300), f"The result is {word}.", *tool_answer(word))
    await chat.say("How far are we?", "Quite far.")
    await drain(service.runtime)


async def checkpoint(service: Service, identity: int) -> Any:
    (found,) = await opened(service.runtime, "select * from checkpoints where id = :id", id=identity)
    return found


async def check(chat: Chat, service: Service, turn: Turn) -> None:
    """The request is [system, record, tail], and the summary covers exactly what is hidden."""
    made = await checkpoint(service, turn.served)
    covered = chat.path(made.covered_until)
    uncovered = chat.path(turn.metadata["user_message_id"])[len(covered) :]
    assert uncovered[0]["role"] == "user"
    record = [{"role": "user", "content": made.summary}, {"role": "assistant", "content": NOTED}]
    assert turn.messages == [*turn.base, *record, *native(uncovered)]
    assert turn.hidden == native(covered)
    assert turn.tail == turn.original[-len(turn.tail) :]


async def test_the_summary_is_injected_once_when_inlet_runs_twice_on_one_request(chat: Chat, service: Service) -> None:
    await long_chat(chat, service)
    chat.ask("What does [CONVERSATION SUMMARY] mean?")  # Open WebUI's marker means nothing in a user's message
    turn = await chat.inlet()
    await check(chat, service, turn)
    await chat.enter(turn)
    assert turn.messages == turn.original
    assert len(chat.host.statuses) == 1


async def test_a_boundary_above_the_newest_messages_is_shown_when_the_answer_says_so_and_then_at_once(
    chat: Chat, service: Service, tap: Wire
) -> None:
    await long_chat(chat, service)
    for number in range(9):
        await chat.say(f"Question {number}", "Yes.")
    chat.filter._last.clear()  # as after a restart of Open WebUI
    tap.seen.clear()

    chat.ask("Go on, please.")
    turn = await chat.inlet()

    await check(chat, service, turn)
    uncovered = len(chat.path()) - (await checkpoint(service, turn.served)).covered_messages
    assert uncovered >= 16
    assert [len(body["path"]) for body in tap.bodies("POST")] == [16, len(chat.path())]

    await chat.reply(turn, "Done.")
    chat.ask("And now?")
    await check(chat, service, await chat.inlet())
    assert [len(body["path"]) for body in tap.bodies("POST")][2:] == [uncovered + 3]


async def test_the_newest_turn_is_never_touched_even_when_it_alone_is_above_the_window(
    chat: Chat, service: Service
) -> None:
    await long_chat(chat, service)
    huge = filler("huge", 12_000)
    chat.ask(huge)
    turn = await chat.inlet()
    await check(chat, service, turn)
    assert turn.messages[-1] == {"role": "user", "content": huge}
    await chat.reply(turn, "Read it.", *tool_answer("big", calls=3, tokens=3000))
    await drain(service.runtime)
    chat.ask("And what was in the first one?")
    turn = await chat.inlet()
    await check(chat, service, turn)
    results = [[one for one in some if one["role"] == "tool"][-3:] for some in (turn.original, turn.messages)]
    assert results[0] == results[1]
