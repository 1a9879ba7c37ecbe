"""What the filter estimates without a tokenizer, beside what the service counts."""

import pytest
from sqlalchemy import text

from benchmarks.estimates import kinds, ratio
from filter_stub.precis_filter import STASH, chain, tokens_stored
from service.transcript import native_tokens
from tests.builders import called, returned, said
from tests.conftest import Service, drain
from tests.filter.chat import Chat, filler

TEXTS = kinds(40)


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_real_texts_are_estimated_within_15_percent(kind: str) -> None:
    assert ratio(TEXTS[kind]) == pytest.approx(1, abs=0.15)


def test_pictures_in_results_of_tools_count_as_pictures_whatever_their_addresses() -> None:
    """The service may not have that answer, as when it was stopped."""
    pictures = "data:image/png;base64," + "iVBORw0KGgo" * 90_000, "/api/v1/files/1/content"
    result = returned("c1", filler("result", 400), *pictures)
    answer = {"id": "a1", "role": "assistant", "output": [called("c1", "look", "{}"), result, said("Two cats.")]}
    (node,) = chain([answer])
    assert tokens_stored(node) == pytest.approx(native_tokens(answer), rel=0.1)


# Pictures of a saved chat, whose addresses are not uploaded


PICTURE = {"type": "image", "url": "data:image/png;base64,iVBORw0KGgo=", "name": "p.png"}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("tokens", [20, 300])
async def test_a_chat_with_a_picture_in_each_question_is_summarised_before_it_is_cut(
    chat: Chat, service: Service, tokens: int
) -> None:
    chat.window = 16_384
    del chat.filter._excess  # which `never_cuts` has set
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
