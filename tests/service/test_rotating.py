"""A rotation of keys: how much one batch holds."""

import pytest

from service.runtime import Urls
from service.storage import rotation
from service.usecases.rotate import Progress, rotate
from tests.service.encrypted import FIRST, MARK, service_with
from tests.service.harness import Harness
from tests.service.talk import Talk, rows

_ARRIVED = "select distinct chat_id from messages where get_byte(body, 0) = 2 order by 1"


async def stored_plain(urls: Urls, chats: int, content: str = "") -> None:
    """Chats of four messages in a database without a key."""
    async with service_with(urls, "") as harness:
        for number in range(1, chats + 1):
            talk = Talk(harness.service.as_filter, f"chat-{number}", user=f"user-{number}")
            leaf = talk.add("marked", talk.turns(1), content=content or f"The {MARK} pump.")
            await talk.ingest(talk.add("answer", leaf, "assistant"))


async def arrived(harness: Harness) -> list[int]:
    return [one.chat_id for one in await rows(harness.runtime, _ARRIVED)]


async def test_a_batch_has_no_more_texts_than_fit_and_at_least_one(urls: Urls, monkeypatch: pytest.MonkeyPatch) -> None:
    await stored_plain(urls, 2)
    monkeypatch.setattr(rotation, "MOST_BYTES", 1)
    told: list[Progress] = []
    async with service_with(urls, FIRST) as harness:
        await rotate(harness.runtime.database, told.append)

        assert await arrived(harness) == [1, 2]
    assert [one.rows for one in told] == [*range(1, 9), 8]
