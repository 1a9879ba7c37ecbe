"""A chat whose texts are gone, through the real filter: the turn after the work missed them brings them again."""

import pytest
from sqlalchemy import text

from tests.conftest import Service, drain
from tests.filter.chat import Chat
from tests.filter.wire import Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def without_text(service: Service, chat: Chat) -> int:
    async with service.runtime.database.engine.connect() as connection:
        query = (
            "select count(*) from messages join chats on chats.id = chat_id where external_id = :chat and body is null"
        )
        return int((await connection.execute(text(query), {"chat": chat.id})).scalar_one())


async def test_the_filter_sends_the_whole_chat_again_and_the_summary_is_made(
    chat: Chat, service: Service, tap: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(type(chat.filter)._ingest.__globals__, "SLICE", 12_000)  # so that it takes several uploads
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
