"""LiteLLM's door, asked as its generic guardrail asks, with the real service."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from service.api.litellm import PATH as DOOR
from service.request import record
from service.transcript import count_sent_tokens
from tests.conftest import Service, drain
from tests.service.talk import prose, row, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]
WINDOW = 8192
ROOM = WINDOW - WINDOW // 8  # without the answer
SYSTEM: Json = {"role": "system", "content": "You are careful."}
UNCHANGED = {"action": "NONE"}
MARK, LONGER = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


async def ask_door(service: Service, messages: list[Json], headers: Mapping[str, str] = {}, **more: object) -> Json:
    body: Json = {
        "input_type": "request",
        "litellm_trace_id": "made-up-for-this-request",
        "structured_messages": messages,
        "request_data": {"user_api_key_user_id": "anna"},
        "request_headers": dict(headers),
        "model": "gpt-x",
    }
    response = await service.as_filter.post(DOOR, json=body | more)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


@dataclass
class Session:
    """A chat that a host has with a model through LiteLLM."""

    service: Service
    name: str
    headers: Json = field(default_factory=dict)
    user: str = "anna"
    messages: list[Json] = field(default_factory=lambda: [SYSTEM])

    async def ask(self, question: object) -> list[Json]:
        """Asks a question; returns the list that goes to the model, whose tail goes word for word."""
        self.messages.append({"role": "user", "content": question})
        who = {"user_api_key_user_id": self.user}
        answer = await ask_door(self.service, self.messages, self.headers, request_data=who)
        sent: list[Json] = answer.get("structured_messages", self.messages)
        tail = sent[3:] if is_summarised(sent) else sent[1:]
        assert count_sent_tokens(sent) <= ROOM
        assert sent[0] == SYSTEM
        assert tail == self.messages[-len(tail) :]
        return sent.copy()

    async def turn(self, number: int) -> list[Json]:
        """Takes a turn about a code that only this session has; returns what went to the model."""
        sent = await self.ask(f"The code of {self.name} {number} is {self.name}-{number}. {prose(150, self.name)}")
        self.messages.append({"role": "assistant", "content": prose(350, f"{self.name} {number}")})
        await self.service.stored()
        await drain(self.service.runtime)
        return sent


def is_summarised(sent: list[Json]) -> bool:
    return record.is_record(sent[1:3])


async def chat_ids(service: Service) -> list[str]:
    return [one.external_id for one in await rows(service.runtime, "select external_id from chats order by id")]


async def long_session(service: Service) -> tuple[Session, list[Json]]:
    """Makes a session that has outgrown the window; returns its newest request too, as it is sent."""
    session = Session(service, "alpha")
    sent: list[Json] = []
    for number in range(24):
        sent = await session.turn(number)
    assert is_summarised(sent)
    return session, sent


async def test_requests_begin_with_the_same_words_until_there_is_a_newer_summary(service: Service) -> None:
    session, sent = await long_session(service)
    made = await rows(service.runtime, "select id from checkpoints")

    session.messages += [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Done."}]
    again = await session.ask("And then?")

    assert await rows(service.runtime, "select id from checkpoints") == made
    assert again[: len(sent)] == sent
    # No turn is handed over, so the request itself says which summary served.
    (chat,) = await rows(service.runtime, "select served_id from chats")
    assert chat.served_id in [one.id for one in made]


@pytest.mark.parametrize(
    "more",
    [
        {"input_type": "response"},
        {"request_headers": {"X-Precis": "off"}},
        {"structured_messages": None},
        {"model": None},
    ],
    ids=["an answer", "switched off", "no messages", "no model"],
)
async def test_what_is_no_request_of_a_chat_goes_as_it_is(service: Service, more: Json) -> None:
    session, _ = await long_session(service)
    chats = await chat_ids(service)

    assert await ask_door(service, session.messages, **({"request_headers": {}} | more)) == UNCHANGED
    assert await chat_ids(service) == chats


async def test_a_key_may_come_as_litellm_sends_it(service: Service) -> None:
    plain = service.as_filter
    body = {"structured_messages": [{"role": "user", "content": "Hello."}], "model": "gpt-x"}

    answer = await plain.post(DOOR, json=body, headers={"Authorization": "", "X-Api-Key": service.filter_key})
    refused = await plain.post(DOOR, json=body, headers={"Authorization": "", "X-Api-Key": "precis_fi_wrong"})

    assert answer.json() == UNCHANGED
    assert refused.status_code == 401


async def test_a_body_of_another_shape_is_refused_with_the_place(service: Service) -> None:
    response = await service.as_filter.post(DOOR, json={"structured_messages": "Hello."})

    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/structured_messages"


PAIR = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}]
NEXT = {"role": "user", "content": "Three?"}


@pytest.mark.parametrize(
    ("headers", "chat"),
    [
        ({"X-Session-Id": "c", "x-claude-code-session-id": "b", "X-Precis-Chat": "a"}, "a"),
        ({"x-conversation-id": "b", "x-openwebui-chat-id": "a"}, "a"),
        ({"x-litellm-session-id": "b", "x-conversation-id": "a"}, "a"),
        ({"x-claude-code-session-id": "b", "x-litellm-session-id": "a"}, "a"),
        ({"x-session-id": "b", "x-claude-code-session-id": "a"}, "a"),
        ({"x-session-affinity": "b", "x-session-id": "a"}, "a"),
        ({"x-parent-session-id": "b", "x-session-affinity": "a"}, "a"),
        ({"x-precis-chat": "[present]", "x-session-affinity": "a"}, "a"),
    ],
)
async def test_a_chat_has_the_id_that_its_host_gives_it(service: Service, headers: Json, chat: str) -> None:
    await ask_door(service, [*PAIR, NEXT], headers)
    await service.stored()

    assert await chat_ids(service) == [chat]


@pytest.mark.parametrize(
    ("headers", "data", "user"),
    [
        ({"x-openwebui-user-id": "anna"}, {"user_api_key_user_id": "team"}, "anna"),
        ({}, {"user_api_key_user_id": "team", "user_api_key_end_user_id": "anna"}, "anna"),
        ({}, {"user_api_key_user_id": "anna", "user_api_key_hash": "88dc"}, "anna"),
        ({"x-precis-user": "[present]"}, {"user_api_key_hash": "88dc"}, "88dc"),
    ],
)
async def test_who_asks_is_whom_the_host_names_or_else_who_has_the_key(
    service: Service, headers: Json, data: Json, user: str
) -> None:
    await ask_door(service, [*PAIR, NEXT], headers, request_data=data)
    await service.stored()

    assert (await row(service.runtime, "select user_id from chats")).user_id == user


async def test_without_an_id_the_first_question_and_its_answer_tell_chats_apart(service: Service) -> None:
    other = [PAIR[0], {"role": "assistant", "content": "Five."}]
    for opening in (PAIR, other):
        await ask_door(service, [SYSTEM, *opening, NEXT])
        await ask_door(service, [{"role": "system", "content": "Another prompt."}, *opening, NEXT])
        await service.stored()

    assert len(await chat_ids(service)) == 2


async def test_two_users_with_two_sessions_that_begin_alike_all_get_their_own_summary(service: Service) -> None:
    sessions = [Session(service, name, user=name[:4]) for name in ("anna1", "anna2", "bert1", "bert2")]
    title = [{"role": "user", "content": "Write a title for this chat: " + prose(300, "title")}]
    for session in sessions:
        session.messages += PAIR
    sent: dict[str, list[Json]] = {}

    for number in range(24):
        for session in sessions:
            sent[session.name] = await session.turn(number)
            assert await ask_door(service, title) == UNCHANGED
            texts = str(sent[session.name])
            assert not [one.name for one in sessions if one is not session and f"{one.name}-" in texts]

    assert all(is_summarised(one) for one in sent.values())
    # What one request alone has shown is given to no model; the other session's requests do not keep it so.
    confirmed = await rows(service.runtime, "select message_id from messages where confirmed")
    assert len(confirmed) == 2 * 2 + 4 * 2 * 22


async def test_another_conversation_under_the_same_id_gets_a_summary_of_its_own(service: Service) -> None:
    session = {"x-claude-code-session-id": "session-1"}
    main, agent = Session(service, "main", session), Session(service, "agent", session)
    for number in range(3):
        await main.turn(number)
    leaf = (await row(service.runtime, "select leaf_id from chats")).leaf_id

    for number in range(24):
        sent = await agent.turn(number)
        assert "main-" not in str(sent)

    assert is_summarised(sent)
    first, second = await rows(service.runtime, "select external_id, leaf_id, expires_at from chats order by id")
    assert (first.external_id, first.leaf_id, first.expires_at) == ("session-1", leaf, None)
    assert second.external_id.startswith("session-1~")
    assert second.expires_at


async def test_what_changes_at_the_beginning_in_each_request_does_not_make_new_chats(service: Service) -> None:
    chat = Session(service, "alpha", {"x-session-id": "session-1"})
    for number in range(6):
        chat.messages[1:2] = [{"role": "user", "content": f"It is {number} o'clock."}]
        await chat.turn(number)

    assert await chat_ids(service) == ["session-1"]


@pytest.mark.parametrize(
    ("question", "answer", "mark"),
    [
        ([{"type": "text", "text": "Keep this.", "cache_control": MARK}], {}, MARK),
        ([{"type": "text", "text": "Keep this.", "cache_control": MARK}], {"cache_control": LONGER}, LONGER),
        ("Keep this.", {}, None),
    ],
    ids=["of a part", "the last one", "none"],
)
async def test_the_summary_has_the_cache_mark_that_what_it_covers_had(
    service: Service, question: Any, answer: Json, mark: Json | None
) -> None:
    opening = [{"role": "user", "content": question}, {"role": "assistant", "content": "I do."} | answer]
    session = Session(service, "alpha", messages=[SYSTEM, *opening])
    for number in range(24):
        await session.turn(number)

    newest = [{"type": "text", "text": "And?", "cache_control": {"type": "of the tail"}}]
    sent = await session.ask(newest)

    parts = [part for part in sent[1]["content"] if isinstance(part, dict)]
    assert [one["cache_control"] for one in parts] == ([mark] if mark else [])
    assert "cache_control" not in str(sent[2:-1])
    assert sent[-1]["content"] == newest


async def test_the_tools_that_go_along_take_their_part_of_the_window(service: Service) -> None:
    tools = [{"type": "function", "function": {"name": "look_up", "description": prose(900, "tool")}}]

    await ask_door(service, [*PAIR, NEXT], tools=tools)
    await service.stored()

    assert (await row(service.runtime, "select overhead_tokens from chats")).overhead_tokens > 900
