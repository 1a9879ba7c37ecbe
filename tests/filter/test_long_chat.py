"""A long chat with native tool calls in a window of 8192 tokens: what reaches the model, turn after turn."""

import re
from typing import Any

import pytest
from sqlalchemy import text

from service.demo.host import Host
from service.settings import Settings, load
from tests.conftest import Service, drain, serving
from tests.fakes.scripted_llm import scripted_llm
from tests.filter.chat import Chat, Turn, filler, filter_of, native, pairs_are_whole, tool_answer
from tests.filter.wire import Wire, wire

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def grow(chat: Chat, turns: int) -> None:
    """Turns that the filter did not see."""
    for number in range(turns):
        word = f"t{number}"
        await chat.say_nothing_of(filler(f"question-{word}", 300), f"The result is {word}.", *tool_answer(word))


async def long_chat(chat: Chat, service: Service, turns: int = 8) -> None:
    """A chat above the window, with a summary ready."""
    await grow(chat, turns)
    await chat.say("How far are we?", "Quite far.")
    await drain(service.runtime)


def alike(service: Service, **other: Any) -> Settings:
    """The service's settings, but for some."""
    urls = service.runtime.urls
    told = {"database_url": urls.database, "redis_url": urls.redis, "window": 8192}
    return load(**(told | other))


async def checkpoint(service: Service, identity: int) -> Any:
    async with service.runtime.database.engine.connect() as connection:
        return (await connection.execute(text("select * from checkpoints where id = :id"), {"id": identity})).one()


async def check(chat: Chat, service: Service, turn: Turn) -> None:
    """The request is [system, summary, tail], and the summary covers exactly what is hidden."""
    made = await checkpoint(service, turn.served)
    covered = chat.path(made.covered_until)
    uncovered = chat.path(turn.metadata["user_message_id"])[len(covered) :]
    assert uncovered[0]["role"] == "user"
    assert turn.messages == [
        {"role": "system", "content": chat.system},
        {"role": "system", "content": made.summary},
        *native(uncovered),
    ]
    assert turn.hidden == native(covered)
    assert turn.tail == turn.original[-len(turn.tail) :]


async def test_the_request_is_the_system_prompt_a_summary_and_the_uncovered_turns(chat: Chat, service: Service) -> None:
    await long_chat(chat, service)
    chat.ask("Go on, please.")
    turn = await chat.inlet()
    assert len(turn.messages) < len(turn.original)
    assert turn.summary.startswith("[Previous conversation summary: ")
    assert pairs_are_whole(turn.tail)
    await check(chat, service, turn)


async def test_one_status_line_tells_the_sizes(chat: Chat, service: Service, tap: Wire) -> None:
    await long_chat(chat, service)
    chat.ask("Go on, please.")
    body = (await chat.inlet()).body
    (line,) = chat.host.statuses
    assert re.fullmatch(r"Summarised \d+ earlier messages: \d+k → \d+k tokens", line)
    answer = await service.as_filter.post(f"/v1/chats/{chat.id}/context", json=tap.bodies("POST")[-1])
    sizes, messages = answer.json()["tokens"], answer.json()["covered_messages"]
    change = f"{round(sizes['before'] / 1000)}k → {round(sizes['after'] / 1000)}k tokens"
    assert line == f"Summarised {messages} earlier messages: {change}"
    assert sizes["before"] > sizes["after"]
    assert body["model"] == "small-model"


async def test_no_status_line_when_the_admin_does_not_want_one(chat: Chat, service: Service) -> None:
    await long_chat(chat, service)
    chat.filter.valves.show_status = False
    chat.ask("Go on, please.")
    assert (await chat.inlet()).served
    assert chat.host.statuses == []


async def test_the_injected_bytes_stay_the_same_until_there_is_a_new_checkpoint(chat: Chat, service: Service) -> None:
    await long_chat(chat, service)
    seen: dict[int, str] = {}
    for number in range(12):
        chat.ask(filler(f"more-{number}", 200))
        turn = await chat.inlet()
        await check(chat, service, turn)
        assert seen.setdefault(turn.served, turn.summary) == turn.summary
        await chat.reply(turn, f"The result is m{number}.", *tool_answer(f"m{number}", calls=1, tokens=200))
        await drain(service.runtime)
    assert 2 <= len(seen) <= 6
    assert list(seen) == sorted(seen)


async def test_each_inlet_costs_one_request_and_no_call_of_a_model(service: Service) -> None:
    async with scripted_llm() as llm:
        told = {"summariser": "openai", "summariser_url": llm.openai_url, "summariser_model": "scripted"}
        async with (
            serving(alike(service, **told)) as thinking,
            wire(thinking.url) as tap,
            filter_of(tap.url, thinking.filter_key) as loaded,
        ):
            chat = Chat(Host(), loaded)
            await long_chat(chat, thinking, turns=40)  # a path longer than the pairs of one question
            calls = len(llm.requests)
            assert calls
            tap.seen.clear()
            for number in range(4):
                chat.ask(f"Go on, please, {number}.")
                turn = await chat.inlet()
                await check(chat, thinking, turn)
                chat.answer("On it.")
                assert tap.asked == ["POST context"] * (number + 1)
            assert all(len(body["path"]) <= 16 < body["depth"] for body in tap.bodies("POST"))
            assert len(llm.requests) == calls


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
    assert [len(body["path"]) for body in tap.bodies("POST")] == [16, uncovered + 1]

    await chat.reply(turn, "Done.")
    chat.ask("And now?")
    await check(chat, service, await chat.inlet())
    assert [len(body["path"]) for body in tap.bodies("POST")] == [16, uncovered + 1, uncovered + 3]


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
    assert [one for one in turn.original if one["role"] == "tool"][-3:] == [
        one for one in turn.messages if one["role"] == "tool"
    ][-3:]


async def test_two_user_messages_in_a_row_after_a_failed_answer_open_one_turn(chat: Chat, service: Service) -> None:
    for number in range(8):
        chat.ask(filler(f"first-{number}", 350))
        chat.answer("", error={"content": "the provider failed"})
        await chat.say_nothing_of(filler(f"again-{number}", 350), filler(f"done-{number}", 350))
    await chat.say("How far are we?", "Quite far.")
    await drain(service.runtime)
    chat.ask("Go on, please.")
    turn = await chat.inlet()
    await check(chat, service, turn)
    assert "first-" in turn.tail[0]["content"]
    assert "again-" in turn.tail[1]["content"]


async def test_the_window_of_the_request_counts_at_both_hooks(service: Service) -> None:
    """`num_ctx` is a parameter of the request: outlet's body does not have it."""
    async with (
        serving(alike(service, window=131_072)) as wide,
        filter_of(wide.url, wide.filter_key) as loaded,
    ):
        chat = Chat(Host(), loaded, "chat-with-num_ctx", window=8192)
        await long_chat(chat, wide)
        chat.ask("Go on, please.")
        turn = await chat.inlet()
        assert turn.served
        await check(chat, service, turn)
