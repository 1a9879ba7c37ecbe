"""The branch that outlet has seen serves the next inlet: Open WebUI's database is read when something has changed."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from filter_stub import precis_filter
from service.transcript import Native
from tests.builders import said, thought
from tests.filter.chat import Chat, remembered, tool_answer
from tests.filter.staged import NOT_NEEDED, against, good_answer
from tests.filter.wire import Answer, Wire

Json = dict[str, Any]


@pytest_asyncio.fixture
async def seen() -> AsyncIterator[tuple[Chat, Wire]]:
    """A chat whose last outlet the filter has seen."""
    async with against(NOT_NEEDED) as (chat, tap):
        await chat.say("Before?", "Yes.")
        chat.host.reads.clear()
        tap.seen.clear()
        yield chat, tap


def asked(tap: Wire) -> list[tuple[str, str]]:
    """(id, digest) of the newest question to the service, root first."""
    return [(identity, digest) for identity, digest in tap.bodies("POST")[-1]["path"][::-1]]


async def test_a_chat_that_goes_on_is_not_read_from_the_database(seen: tuple[Chat, Wire]) -> None:
    chat, _ = seen
    for number in range(4):
        await chat.say(f"And {number}?", f"Yes {number}.")
    assert chat.host.reads == []


@pytest.mark.parametrize(
    "reply",
    [
        lambda chat: chat.answer("Let me look.\nThe result is w.", *tool_answer("w", tokens=20)),
        lambda chat: chat.answer("It is w.", thought("Is it?"), said("It is w.")),
        lambda chat: chat.answer("", error={"content": "the provider failed"}),
        lambda chat: chat.add("assistant", "Without output items.", chat.leaf),
    ],
    ids=["tools", "reasoning", "failed", "old"],
)
async def test_the_digests_are_those_of_the_database(seen: tuple[Chat, Wire], reply: Callable[[Chat], str]) -> None:
    chat, tap = seen
    chat.ask("Now?")
    turn = await chat.inlet()
    reply(chat)
    await chat.outlet(turn)
    chat.ask("And then?")
    await chat.inlet()
    assert chat.host.reads == []
    newest = chat.path()
    assert asked(tap) == [(node.id, node.digest) for node in precis_filter.chain(newest)]


def edit_a_question(chat: Chat) -> None:
    chat.rows["u3"]["content"] = "Something else"


def delete_a_turn(chat: Chat) -> None:
    """Its children go with it, and its grandchildren get its parent."""
    del chat.rows["u3"], chat.rows["a4"]
    chat.rows["u5"]["parentId"] = "a2"


def insert_a_turn(chat: Chat) -> None:
    """As a plugin may."""
    leaf, chat.leaf = chat.leaf, "a2"
    chat.ask("In between?")
    chat.rows["u3"]["parentId"] = chat.answer("Yes.")
    chat.leaf = leaf


def go_on_below_an_equal_answer(chat: Chat) -> None:
    """Regenerated: the same words under another id."""
    answer = chat.rows[str(chat.leaf)]
    chat.leaf = answer["parentId"]
    chat.answer(answer["content"])  # no outlet


@pytest.mark.parametrize("change", [edit_a_question, delete_a_turn, insert_a_turn, go_on_below_an_equal_answer])
async def test_after_a_change_the_database_is_read(seen: tuple[Chat, Wire], change: Callable[[Chat], None]) -> None:
    chat, tap = seen
    change(chat)
    chat.ask("And now?")
    await chat.inlet()
    assert chat.host.reads == [chat.id]
    assert asked(tap) == [(node.id, node.digest) for node in precis_filter.chain(chat.path())]


@pytest.mark.parametrize(
    "edited",
    [
        lambda messages: [*messages, {"role": "user", "content": "Answer in English."}],
        lambda messages: [{"role": "user", "content": "Memory: the user likes tea."}, *messages],
        lambda messages: [messages[0], *messages[3:]],
    ],
    ids=["added at the end", "added in front", "cut"],
)
async def test_what_an_earlier_filter_changed_is_compared_with_the_stored_path(
    seen: tuple[Chat, Wire], edited: Callable[[list[Native]], list[Native]]
) -> None:
    chat, _ = seen
    chat.ask("And now?")
    turn = chat.request(str(chat.leaf))
    turn.body["messages"] = edited(turn.messages)
    await chat.enter(turn)
    assert chat.host.reads == [chat.id]


async def test_another_system_prompt_is_no_change_of_the_chat(seen: tuple[Chat, Wire]) -> None:
    chat, _ = seen
    chat.system = "You are a pirate."
    await chat.say("And now?", "Arr.")
    assert chat.host.reads == []


async def test_a_summary_is_put_in_by_the_remembered_path_as_by_the_stored_one(seen: tuple[Chat, Wire]) -> None:
    chat, tap = seen
    chat.ask("And now?")
    tap.behaviour = Answer(good_answer(chat))
    known = await chat.inlet()
    assert chat.host.reads == []
    chat.filter._remembered.clear()
    read = await chat.inlet()
    assert chat.host.reads == [chat.id]
    assert known.served == read.served == 7
    assert known.messages == read.messages


async def test_files_of_the_newest_question_travel_with_the_remembered_path(seen: tuple[Chat, Wire]) -> None:
    chat, tap = seen
    await chat.say("Read this.", "I did.", files=[{"type": "file", "name": "plan.pdf", "url": "f1"}])
    assert chat.host.reads == []
    (body,) = tap.bodies("PUT")
    assert body["messages"][-2]["files"] == [{"type": "file", "name": "plan.pdf"}]


async def test_only_so_many_chats_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with against(NOT_NEEDED) as (chat, _):
        monkeypatch.setitem(type(chat.filter)._take.__globals__, "REMEMBERED", 3)
        chats = [Chat(chat.host, chat.filter, f"many-{number}") for number in range(5)]
        for one in (*chats[:3], chats[0], *chats[3:]):
            await one.say("Hello.", "Hi.")
        assert list(chat.filter._remembered) == ["many-0", "many-3", "many-4"]


async def test_what_is_remembered_has_no_text(seen: tuple[Chat, Wire]) -> None:
    chat, _ = seen
    await chat.say("A secret question", "A secret answer", *tool_answer("secret", tokens=20))
    assert "secret" not in remembered(chat.filter)
    assert "Before" not in remembered(chat.filter)


async def test_a_short_chat_is_not_remembered() -> None:
    async with against(Answer({}), skip_below_chars=24_000) as (chat, _):
        await chat.say("Hello.", "Hi.")
        assert chat.filter._remembered == {}
        assert chat.host.reads == []
