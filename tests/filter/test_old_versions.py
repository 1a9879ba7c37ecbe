"""What Open WebUI 0.6.43 to 0.11 do otherwise: names in the metadata, functions that block, what outlet is given."""

import copy
import sys
import threading
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from filter_stub import precis_filter
from service.demo.host import Host, Rows
from tests.builders import said
from tests.filter.chat import Chat, Turn, ingested, tool_answer
from tests.filter.staged import NOT_NEEDED, against, chat_of, good_answer, summarised
from tests.filter.wire import Answer, Wire

Json = dict[str, Any]

DETAILS = '<details type="tool_calls" done="true" name="query">\n<summary>Tool Executed</summary>\n</details>\n'


class Old(Host):
    """Up to 0.8 these functions block."""

    def __init__(self, chats: dict[str, Rows]) -> None:
        super().__init__(chats)
        self.threads: list[threading.Thread] = []

    def get_messages_map_by_chat_id(self, chat_id: str) -> Rows | None:  # type: ignore[override]
        self.reads.append(chat_id)
        self.threads.append(threading.current_thread())
        return copy.deepcopy(self.chats.get(chat_id))


@pytest_asyncio.fixture
async def old() -> AsyncIterator[tuple[Chat, Wire]]:
    """A chat of 0.8."""
    async with against(NOT_NEEDED) as (chat, tap):
        chat.host = Old(chat.host.chats)
        yield chat, tap


def request(chat: Chat, **told: object) -> Turn:
    """A request with the metadata of 0.8 and before: `told` instead of the newer names."""
    turn = chat.request(str(chat.leaf))
    for name in ("user_message", "user_message_id", "regeneration_message_id", "assistant_message_id"):
        turn.metadata.pop(name, None)
    turn.metadata.update(told)
    return turn


async def outlet(chat: Chat, **body: object) -> None:
    """The page of 0.8 asks for outlet: with metadata of its own, and without the output of the answers."""
    messages = [
        {key: copy.deepcopy(row.get(key)) for key in ("id", "role", "content", "timestamp")} for row in chat.path()
    ]
    for message in messages:
        if "output" in chat.rows[str(message["id"])]:
            message["content"] = DETAILS + str(message["content"])
    asked = {"model": "m", "messages": messages, "chat_id": chat.id, "session_id": "s", "id": chat.leaf, **body}
    metadata: Json = {
        "chat_id": chat.id,
        "message_id": chat.leaf,
        "session_id": "s",
        "filter_ids": [],
        "user_id": "user-1",
    }
    with chat.host.importable():
        assert await chat.filter.outlet(asked, __metadata__=metadata, __user__={"id": "user-1"}) is asked
        await ingested(chat.filter)


def digests(chat: Chat) -> list[tuple[str, str]]:
    return [(node.id, node.digest) for node in precis_filter.chain(chat.path())]


def asked(tap: Wire) -> list[tuple[str, str]]:
    return [(identity, digest) for identity, digest in tap.bodies("POST")[-1]["path"][::-1]]


@pytest.mark.parametrize(
    "names", [("parent_message_id",), ("parent_message",), ("parent_message", "parent_message_id")]
)
async def test_the_question_is_found_under_its_old_names(old: tuple[Chat, Wire], names: tuple[str, ...]) -> None:
    chat, tap = old
    question = chat.rows[str(chat.leaf)]
    values: Json = {"parent_message": question, "parent_message_id": question["id"]}
    await chat.enter(request(chat, **{name: values[name] for name in names}))
    assert asked(tap) == digests(chat)


async def test_the_question_is_found_above_the_answer_that_is_going_to_be_written(old: tuple[Chat, Wire]) -> None:
    chat, tap = old
    turn = request(chat)
    path = digests(chat)
    turn.metadata["message_id"] = chat.answer("")
    await chat.enter(turn)
    assert asked(tap) == path


async def test_a_function_that_blocks_does_not_run_on_the_event_loops_thread(old: tuple[Chat, Wire]) -> None:
    chat, tap = old
    await chat.enter(request(chat, parent_message_id=chat.leaf))
    assert isinstance(chat.host, Old)
    (thread,) = chat.host.threads
    assert thread is not threading.current_thread()
    assert tap.asked == ["POST context"]


async def test_outlet_hands_over_what_is_stored_not_what_the_page_has(old: tuple[Chat, Wire]) -> None:
    """The page's answers have no output items; digests of them would fit no later request."""
    chat, tap = old
    chat.answer("The result is w.", *tool_answer("w", tokens=20))
    await outlet(chat)
    (body,) = tap.bodies("PUT")
    assert [(message["id"], message["digest"]) for message in body["messages"]] == digests(chat)[-2:]
    assert body["messages"][-1]["output"] == chat.rows[str(chat.leaf)]["output"]
    assert body["user_id"] == "user-1"
    assert body["served"] is None
    chat.ask("And then?")
    await chat.enter(request(chat, parent_message_id=chat.leaf))
    assert asked(tap) == digests(chat)


async def test_an_answer_that_is_not_stored_yet_is_handed_over_as_the_page_has_it(old: tuple[Chat, Wire]) -> None:
    """With two models at once a row may still be empty at its outlet."""
    chat, tap = old
    answer = chat.answer("")
    messages = [{key: row.get(key) for key in ("id", "role", "content")} for row in chat.path()]
    messages[-1]["content"] = "An answer"
    await outlet(chat, messages=messages)
    assert tap.bodies("PUT")[0]["messages"][-1]["content"] == "An answer"
    assert tap.bodies("PUT")[0]["messages"][-1]["id"] == answer


async def test_outlet_does_not_fail_where_the_database_has_not_the_pages_branch(old: tuple[Chat, Wire]) -> None:
    chat, tap = old
    chat.answer("An answer")
    messages = [{"id": "x1", "role": "user", "content": "Hi."}, {"id": "x2", "role": "assistant", "content": "Hello."}]
    await outlet(chat, messages=messages, id="x2")
    assert [message["id"] for body in tap.bodies("PUT") for message in body["messages"]] == ["x1", "x2"]


async def test_a_guided_regeneration_without_a_mark_in_the_metadata_keeps_its_question() -> None:
    """From 0.9 to 0.11 the body just ends in two user messages, and only the first is stored."""
    async with summarised() as (chat, _):
        turn = chat.request(str(chat.leaf), {"role": "user", "content": "Make it shorter."})
        turn.metadata.pop("regeneration_message_id")
        await chat.enter(turn)
        assert turn.hidden == turn.original[1:3]
        assert turn.tail == turn.original[3:]


async def test_failed_answers_that_stay_in_the_request_as_empty_ones_hide_nothing() -> None:
    """As in 0.9."""
    async with against(Answer({})) as (chat, tap):
        chat = chat_of(chat.filter)
        tap.behaviour = Answer(good_answer(chat))
        turn = chat.request(str(chat.leaf))
        turn.body["messages"].insert(-1, {"role": "assistant", "content": ""})
        await chat.enter(turn)
        assert turn.hidden == turn.original[1:3]


async def test_an_answer_with_details_in_its_text_is_handed_over_as_it_is_stored() -> None:
    """0.9 has both: output items, and a text with the folded tool calls."""
    async with against(NOT_NEEDED) as (chat, tap):
        await chat.say("Look.", DETAILS + "Done.", said("Done."))
        chat.ask("And?")
        await chat.inlet()
        assert asked(tap) == digests(chat)


@pytest.mark.parametrize("merges", [False, True])
async def test_the_summary_joins_the_system_prompt_where_open_webui_does_not_merge_them(
    monkeypatch: pytest.MonkeyPatch, merges: bool
) -> None:
    """Up to 0.7 it sends system messages as they are."""
    misc = ModuleType("open_webui.utils.misc")
    if merges:
        misc.__dict__["merge_system_messages"] = list
    monkeypatch.setitem(sys.modules, "open_webui.utils.misc", misc)
    async with against(Answer({})) as (chat, tap):
        answer = good_answer(chat)
        tap.behaviour = Answer(answer)
        turn = await chat.inlet()
    texts = [one["content"] for one in turn.messages if one["role"] == "system"]
    parts = [chat.system, answer["summary"]]
    assert texts == (parts if merges else ["\n".join(parts)])
    assert turn.messages[len(texts)]["role"] == "user"
