"""What the filter tells of a turn after the answer, and that nothing is lost when it could not."""

import pytest

from tests.conftest import Service
from tests.filter.chat import Chat, ingested
from tests.filter.wire import Answer, HangUp, Wire
from tests.service.talk import rows, run_sql

THIS = "join chats on chats.id = chat_id where external_id = :chat"


def sent(tap: Wire) -> list[list[str]]:
    return [[row["id"] for row in seen.body["messages"]] for seen in tap.seen if seen.path == "/v1/turns"]


async def stored(service: Service, chat: Chat) -> set[str]:
    await service.stored()
    found = await rows(service.runtime, f"select host_id from messages {THIS}", chat=chat.id)
    return {str(one.host_id) for one in found}


async def test_a_long_chat_is_uploaded_whole_once_and_then_each_turn_alone(
    chat: Chat, service: Service, tap: Wire
) -> None:
    chat.grow(40, 20)
    for number in range(4):
        await chat.say(f"Question {number}", f"Answer {number}")
    assert [len(ids) for ids in sent(tap)] == [82, 2, 2, 2]
    assert sent(tap)[-1] == [row["id"] for row in chat.path()[-2:]]
    assert await stored(service, chat) == set(chat.rows)


async def test_its_title_and_the_name_of_the_user_travel_with_a_chat(chat: Chat, service: Service, tap: Wire) -> None:
    chat.user = "u" * 200  # which makes a name that is too long
    chat.host.titles[chat.id] = "A garden 🌱 " + "t" * 300
    await chat.say("One", "1")
    (shown,) = (await service.as_operator.get("/v1/chats", params={"begins": chat.id})).json()["chats"]
    assert shown["user_name"] == f"Name of {chat.user}"[:200]
    assert shown["title"] == chat.host.titles[chat.id][:200]
    assert "Name of" not in str(tap.seen[0].body), "no request to a model needs it"


async def test_after_the_chat_was_deleted_meanwhile_the_next_request_brings_all_of_it(
    chat: Chat, service: Service
) -> None:
    await chat.say("One", "1")
    chat.ask("Two")
    turn = await chat.inlet()
    assert (await service.as_operator.delete(f"/v1/chats/{chat.id}")).is_success
    await run_sql(service.runtime, "delete from tombstones")
    await chat.reply(turn, "2")
    await chat.say("Three", "3")
    assert await stored(service, chat) == set(chat.rows)


@pytest.mark.parametrize("away", [HangUp(), Answer("<html>Bad gateway</html>", 502), Answer({}, 500)])
async def test_nothing_is_lost_while_the_service_is_away(
    chat: Chat, service: Service, tap: Wire, away: HangUp | Answer
) -> None:
    await chat.say("One", "1")
    real, tap.behaviour = tap.behaviour, away
    for number in range(3):
        await chat.say(f"While away {number}", "An answer")
    assert await stored(service, chat) == {"u1", "a2"}
    tap.behaviour = real
    chat.filter._again_at = 0  # the pause is over
    await chat.say("Back again", "An answer")
    assert await stored(service, chat) == set(chat.rows)


async def test_outlet_does_not_wait_for_the_service(chat: Chat, service: Service, tap: Wire) -> None:
    chat.ask("One")
    turn = await chat.inlet()
    chat.answer("1")
    body = {"chat_id": chat.id, "model": "m", "messages": [dict(row) for row in chat.path()]}
    tap.seen.clear()
    with chat.host.importable():
        assert await chat.filter.outlet(body, __metadata__=turn.metadata) is body
        assert tap.seen == []
        await ingested(chat.filter)
    assert await stored(service, chat) == set(chat.rows)
