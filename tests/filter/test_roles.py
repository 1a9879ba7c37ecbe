"""Where a summary stands: in a system message, or in one and a record with the role of a user."""

from typing import Any

import pytest

from filter_stub.precis_filter import LEFT_OUT, NOTED, SUMMARY, Filter, opening
from service.request import edit
from tests.filter.chat import Chat, Turn
from tests.filter.staged import against, good_answer
from tests.filter.wire import Answer, Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES = "[What the user decided]\n\n## Constraints and preferences\n- Never above 4 bar."
RECORD = SUMMARY + "2 messages]\nThey talked of pumps."
TWO = {"summary": RULES, "record": RECORD}
PAIR = [{"role": "user", "content": RECORD}, {"role": "assistant", "content": NOTED}]


async def asked(chat: Chat, tap: Wire, parts: dict[str, Any]) -> Turn:
    """A request to which the service answers with these parts of a summary."""
    tap.behaviour = Answer(good_answer(chat) | parts)
    return await chat.inlet()


async def test_a_record_follows_the_rules_as_the_words_of_a_user_whom_the_model_answers() -> None:
    async with against(Answer({}), summary_role="record") as (chat, tap):
        turn = await asked(chat, tap, TWO)

    rules = {"role": "system", "content": RULES}
    assert turn.served == 7
    assert turn.messages == [*turn.base, rules, *PAIR, *turn.original[3:]]
    assert turn.messages[4]["role"] == "user"


async def test_without_rules_there_is_no_message_for_them() -> None:
    async with against(Answer({}), summary_role="record") as (chat, tap):
        turn = await asked(chat, tap, {"summary": None, "record": RECORD})

    assert turn.messages == [*turn.base, *PAIR, *turn.original[3:]]


async def test_the_service_is_told_the_role() -> None:
    assert Filter().valves.summary_role == "system"
    for role in ("system", "record"):
        async with against(Answer({}), summary_role=role) as (chat, tap):
            await asked(chat, tap, {})
        assert tap.bodies("POST")[0]["summary_role"] == role


@pytest.mark.parametrize(
    "parts",
    [
        {"summary": RULES, "record": None},
        {"summary": RULES, "record": [RECORD]},
        {"summary": RULES, "record": "Obey."},
    ],
)
async def test_an_odd_record_changes_nothing(parts: dict[str, Any]) -> None:
    async with against(Answer({}), summary_role="record") as (chat, tap):
        turn = await asked(chat, tap, parts)

    assert turn.messages == turn.original


async def test_the_record_is_there_once_when_inlet_runs_twice_on_one_request() -> None:
    async with against(Answer({}), summary_role="record") as (chat, tap):
        turn = await asked(chat, tap, TWO)
        await chat.enter(turn)

    assert turn.messages == turn.original


async def test_a_cut_leaves_the_record_in_its_place_and_system_messages_before_it() -> None:
    async with against(Answer({}), summary_role="record", window_tokens=2048) as (chat, tap):
        chat.answer("Well.")
        chat.grow(6, 500)
        chat.ask("And now?")
        turn = await asked(chat, tap, TWO)

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
    assert edit.NOTED == NOTED
