"""What the filter uploads after a reply, and that nothing is lost when it could not."""

import pytest
from sqlalchemy import text

from filter_stub import precis_filter
from tests.builders import said
from tests.conftest import Service, drain
from tests.filter.chat import Chat, ingested, keyed, stored_path
from tests.filter.wire import Answer, HangUp, Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")


def sent(tap: Wire) -> list[list[str]]:
    """The ids in each hand-over so far."""
    return [[message["id"] for message in body["messages"]] for body in tap.bodies("PUT")]


async def stored(service: Service, chat: Chat) -> list[tuple[str, str]]:
    """(id, digest) of the path to the chat's leaf, as the service has it."""
    assert chat.leaf
    return await stored_path(service, chat.id, chat.leaf)


async def expected(service: Service, chat: Chat) -> list[tuple[str, str]]:
    assert chat.leaf
    return await keyed(service, precis_filter.chain(precis_filter.branch(chat.rows, chat.leaf)))


async def test_a_long_chat_is_uploaded_whole_once_and_then_each_turn_alone(
    chat: Chat, service: Service, tap: Wire
) -> None:
    chat.grow(40, 20)
    for number in range(4):
        await chat.say(f"Question {number}", f"Answer {number}")
    assert [len(ids) for ids in sent(tap)] == [82, 2, 2, 2]
    assert sent(tap)[-1] == [row["id"] for row in chat.path()[-2:]]
    assert tap.asked[-6:] == ["POST context", "PUT transcript"] * 3
    assert await stored(service, chat) == await expected(service, chat)


async def test_its_title_and_the_name_of_the_user_travel_with_a_chat(chat: Chat, service: Service, tap: Wire) -> None:
    chat.user = "u" * 200  # which makes a name that is too long
    chat.host.titles[chat.id] = "A garden 🌱 " + "t" * 300
    await chat.say("One", "1")
    (shown,) = (await service.as_operator.get("/v1/chats", params={"begins": chat.id})).json()["chats"]
    assert shown["user_name"] == f"Name of {chat.user}"[:200]
    assert shown["title"] == chat.host.titles[chat.id][:200]
    assert "Name of" not in str(tap.bodies("POST")), "no request to a model needs it"


async def test_a_reply_whose_inlet_got_no_answer_is_uploaded_alone(chat: Chat, service: Service, tap: Wire) -> None:
    await chat.say("One", "1")
    chat.ask("Two")
    real, tap.behaviour = tap.behaviour, HangUp()
    turn = await chat.inlet()
    tap.behaviour = real
    await chat.reply(turn, "2")
    assert sent(tap)[-1] == ["u3", "a4"]
    assert await stored(service, chat) == await expected(service, chat)


async def test_when_the_service_does_not_know_the_message_before_the_whole_path_follows(
    chat: Chat, service: Service, tap: Wire
) -> None:
    await chat.say("One", "1")
    await chat.say("Two", "2")
    chat.ask("Three")
    turn = await chat.inlet()
    answer = await service.as_operator.delete(f"/v1/chats/{chat.id}")
    assert answer.is_success
    chat.answer("3")
    tap.seen.clear()
    await chat.outlet(turn)
    assert tap.asked == ["PUT transcript", "PUT transcript"]
    assert sent(tap) == [["u5", "a6"], ["u1", "a2", "u3", "a4", "u5", "a6"]]
    assert await stored(service, chat) == await expected(service, chat)


async def test_a_stopped_answer_is_uploaded_with_the_next_turn(chat: Chat, service: Service, tap: Wire) -> None:
    await chat.say("One", "1")
    chat.ask("Two")
    await chat.inlet()
    chat.answer("Half of an ans", said("Half of an ans") | {"status": "incomplete"})  # no outlet
    await chat.say("Three", "3")
    assert sent(tap) == [["u1", "a2"], ["u3", "a4", "u5", "a6"]]
    assert await stored(service, chat) == await expected(service, chat)


@pytest.mark.parametrize("away", [HangUp(), Answer("<html>Bad gateway</html>", 502), Answer({}, 500)])
async def test_nothing_is_lost_while_the_service_is_away(
    chat: Chat, service: Service, tap: Wire, away: HangUp | Answer
) -> None:
    await chat.say("One", "1")
    real, tap.behaviour = tap.behaviour, away
    for number in range(3):
        await chat.say(f"While away {number}", "An answer")
    assert len(await stored(service, chat)) == 0  # of the new leaf
    tap.behaviour = real
    chat.filter._again_at = 0  # the pause is over
    tap.seen.clear()
    await chat.say("Back again", "An answer")
    assert sent(tap) == [["u3", "a4", "u5", "a6", "u7", "a8", "u9", "a10"]]
    assert await stored(service, chat) == await expected(service, chat)


async def test_the_names_of_files_travel_and_their_addresses_do_not(chat: Chat, service: Service, tap: Wire) -> None:
    files = [
        {"type": "file", "id": "f1", "url": "f1", "name": "plan.pdf", "content_type": "application/pdf", "size": 7},
        {"type": "image", "url": "data:image/png;base64,AAAA", "name": "cat.png"},
        "odd",
        {"type": "file", "file": {"secret": "text of the file"}},
    ]
    await chat.say("Read these", "I did", files=files)
    (body,) = tap.bodies("PUT")
    assert body["messages"][0]["files"] == [
        {"type": "file", "name": "plan.pdf", "content_type": "application/pdf"},
        {"type": "image", "name": "cat.png"},
        {"type": "file"},
    ]
    assert "files" not in body["messages"][1]
    assert await stored(service, chat) == await expected(service, chat)


async def test_an_edit_in_place_is_uploaded_from_there_on(chat: Chat, service: Service, tap: Wire) -> None:
    for number in range(4):
        await chat.say(f"Question {number}", f"Answer {number}")
    chat.rows["u5"]["content"] = "Another question"
    await chat.say("Next", "Yes")
    assert sent(tap)[-1] == ["u5", "a6", "u7", "a8", "u9", "a10"]
    assert await stored(service, chat) == await expected(service, chat)


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
    assert tap.asked == ["PUT transcript"]
    assert await stored(service, chat) == await expected(service, chat)


async def test_what_the_provider_counted_is_compared_with_what_was_in_the_request(
    chat: Chat, service: Service, tap: Wire
) -> None:
    chat.grow(8)
    await chat.say("Enough?", "Yes.")
    await drain(service.runtime)
    chat.ask("Go on.")
    turn = await chat.inlet()
    assert turn.served
    sent = list(turn.messages)
    again = await chat.filter.inlet(turn.body, __metadata__=turn.metadata)  # a second pass changes nothing of it
    assert again is turn.body
    assert turn.messages == sent
    await chat.reply(turn, "On it.")
    assert [body["served"] for body in tap.bodies("PUT")] == [0, turn.served]


async def test_the_usage_of_a_continued_answer_tells_nothing_of_the_branch(chat: Chat, tap: Wire) -> None:
    """Its beginning was in the request, and is no part of what stands above it."""
    await chat.say("Tell me a story.", "Once upon a time")
    row = chat.rows[str(chat.leaf)]
    begun = {"role": "assistant", "content": row["content"]}
    turn = await chat.inlet(row["parentId"], begun, assistant_message_id=row["id"], message_id=row["id"])
    row["output"].append(said(" there was a fox."))
    await chat.outlet(turn)
    assert [body["served"] for body in tap.bodies("PUT")] == [0, None]


@pytest.mark.parametrize("below", [0, 1])
async def test_a_short_chat_costs_no_request_at_all(chat: Chat, tap: Wire, below: int) -> None:
    chat.ask("Hello there")
    chat.filter.valves.skip_below_chars = len(chat.system + "Hello there") + below
    turn = await chat.inlet()
    assert tap.asked == ["POST context"] * (1 - below)
    tap.seen.clear()
    chat.answer("Hello yourself")
    chat.filter.valves.skip_below_chars = sum(map(precis_filter.size_of, chat.path())) + below
    await chat.outlet(turn)
    assert tap.asked == ["PUT transcript"] * (1 - below)
    assert turn.messages == turn.original


# Texts that the service has no more


async def without_text(service: Service, chat: Chat) -> int:
    async with service.runtime.database.engine.connect() as connection:
        query = (
            "select count(*) from messages join chats on chats.id = chat_id where external_id = :chat and body is null"
        )
        return int((await connection.execute(text(query), {"chat": chat.id})).scalar_one())


async def test_the_filter_sends_the_whole_chat_again_and_the_summary_is_made(
    chat: Chat, service: Service, tap: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(type(chat.filter)._ingest.__globals__, "SLICE", 9)  # so that it takes several uploads
    chat.grow(12, 300)
    await chat.say("How far are we?", "Quite far.")
    async with service.runtime.database.engine.begin() as connection:
        await connection.execute(text("update messages set body = null"))
    await drain(service.runtime)
    tap.seen.clear()

    await chat.say("And now?", "Further.")

    uploads = tap.bodies("PUT")
    assert uploads[0]["after"] is not None, "as ever, the new messages alone"
    assert uploads[1]["after"] is None
    assert len(uploads) > 3
    again = [message["id"] for body in uploads[1:] for message in body["messages"]]
    assert again == [row["id"] for row in chat.path()]
    assert await without_text(service, chat) == 0
    await drain(service.runtime)
    chat.ask("Do you remember?")
    assert (await chat.inlet()).summary
    chat.answer("I do.")
    tap.seen.clear()
    await chat.say("Go on.", "Gladly.")
    assert [len(body["messages"]) for body in tap.bodies("PUT")] == [4], "asked for once"
