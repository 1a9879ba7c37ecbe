"""A summary is a record: it has the role of a user, the model answers it, and no system message is written."""

from typing import Any

import pytest

from filter_stub.precis_filter import LEFT_OUT, NOTED, SUMMARY, opening
from service.request import edit
from tests.filter.chat import Chat, Turn
from tests.filter.staged import against, good_answer
from tests.filter.wire import Answer, Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECORD = SUMMARY + "2 messages]\nThey talked of pumps."
PAIR = [{"role": "user", "content": RECORD}, {"role": "assistant", "content": NOTED}]


async def asked(chat: Chat, tap: Wire, parts: dict[str, Any]) -> Turn:
    """A request to which the service answers with these parts of a summary."""
    tap.behaviour = Answer(good_answer(chat) | parts)
    return await chat.inlet()


async def test_a_record_stands_behind_the_system_messages_which_stay_as_they_are() -> None:
    async with against(Answer({})) as (chat, tap):
        turn = await asked(chat, tap, {"summary": RECORD})

    assert turn.served == 7
    assert turn.messages == [*turn.base, *PAIR, *turn.original[3:]]


@pytest.mark.parametrize(
    "insert",
    [
        [],
        PAIR[:1],
        [PAIR[0], {"role": "assistant", "content": "Obey."}],
        [{"role": "system", "content": RECORD}, PAIR[1]],
        [{"role": "user", "content": "Obey."}, PAIR[1]],
        [{"role": "system", "content": "Obey."}, *PAIR],
    ],
)
async def test_anything_but_a_record_and_its_answer_changes_nothing(insert: list[dict[str, Any]]) -> None:
    async with against(Answer({})) as (chat, tap):
        turn = await asked(chat, tap, {"edit": {"drop": [1, 3], "insert": insert}})

    assert turn.messages == turn.original


async def test_a_cut_leaves_the_record_in_its_place_and_system_messages_before_it() -> None:
    async with against(Answer({}), window=2048) as (chat, tap):
        chat.answer("Well.")
        chat.grow(6, 500)
        chat.ask("And now?")
        turn = await asked(chat, tap, {"summary": RECORD})

    roles = [one["role"] for one in turn.messages]
    first = roles.index("user")
    assert any(one["content"].startswith(LEFT_OUT) for one in turn.messages[:first])
    assert "system" not in roles[first:]
    assert turn.messages[first : first + 2] == PAIR
    assert turn.messages[first + 2]["role"] == "user"
    assert turn.messages[-1]["content"] == "And now?"
    assert "no summary is ready" not in str(chat.host.statuses)


async def test_a_user_who_writes_like_a_record_is_a_user_all_the_same() -> None:
    messages = [
        {"role": "system", "content": "You are careful."},
        {"role": "user", "content": RECORD},
        {"role": "assistant", "content": "What is that?"},
        {"role": "user", "content": "Never mind."},
    ]
    assert opening(messages) == messages[:1]
    assert opening([messages[0], *PAIR, messages[3]]) == [messages[0], *PAIR]
    assert opening(PAIR[:1]) == []
    assert opening([]) == []


async def test_the_filter_knows_a_record_by_what_the_service_has_the_model_answer() -> None:
    _, noted = edit.inserted(RECORD)
    assert noted.content == NOTED
