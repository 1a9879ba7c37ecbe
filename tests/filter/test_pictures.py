"""Pictures of a saved chat, whose addresses are not uploaded, weigh what they cost the model."""

import pytest
from sqlalchemy import text

from filter_stub.precis_filter import STASH
from tests.conftest import Service, drain
from tests.filter.chat import Chat, filler

pytestmark = pytest.mark.asyncio(loop_scope="module")

PICTURE = {"type": "image", "url": "data:image/png;base64,iVBORw0KGgo=", "name": "p.png"}


@pytest.mark.parametrize("tokens", [20, 300])
async def test_a_chat_with_a_picture_in_each_question_is_summarised_before_it_is_cut(
    chat: Chat, service: Service, tokens: int
) -> None:
    chat.window, chat.filter.valves.on_overflow = 16_384, "truncate"
    chat.filter.valves.skip_below_chars = type(chat.filter.valves)().skip_below_chars
    cut, served = [], 0
    for number in range(24):
        turn = await chat.say(f"What is in picture {number}?", filler(f"a{number}", tokens), files=[PICTURE])
        cut.append(turn.metadata[STASH]["cut"])
        served += bool(turn.served)
        await drain(service.runtime)

    assert not any(cut)
    assert served
    async with service.runtime.database.engine.connect() as connection:
        of_chat = "join chats c on c.id = m.chat_id where c.external_id = :chat"
        query = text(f"select tokens from messages m {of_chat} and message_id = 'u1'")
        assert (await connection.execute(query, {"chat": chat.id})).scalar_one() > 1000
