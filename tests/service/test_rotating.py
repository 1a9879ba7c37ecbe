"""A rotation of keys: how much one batch holds, and whom it waits for."""

import asyncio

import pytest
from sqlalchemy import text

from service.runtime import Urls
from service.storage import rotation
from service.storage.tenancy import ChatKey
from service.usecases.rotate import Progress, rotate
from tests.service.encrypted import FIRST, MARK, service_with
from tests.service.harness import Harness
from tests.service.talk import Talk, rows
from tests.waiting import until

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


async def test_of_several_chats_it_does_not_wait_for_one_that_somebody_works_on(urls: Urls) -> None:
    await stored_plain(urls, 3)
    async with service_with(urls, FIRST) as harness:
        async with harness.runtime.database.engine.begin() as connection:
            await connection.execute(text("select 1 from chats where id = 2 for update"))
            rotating = asyncio.create_task(rotate(harness.runtime.database, lambda _: None))

            await until(lambda: _is([1, 3], harness))

        assert [one.key for one in await rotating] == [1]
        assert await arrived(harness) == [1, 2, 3]


async def _is(wanted: list[int], harness: Harness) -> bool:
    return await arrived(harness) == wanted


def test_chats_of_different_tenants_share_no_batch() -> None:
    page = [ChatKey(1, 1), ChatKey(1, 2), ChatKey(2, 3), ChatKey(1, 4)]
    assert list(rotation.together(page)) == [page[:2], page[2:3], page[3:]]
    many = [ChatKey(1, number) for number in range(50)]
    assert [len(group) for group in rotation.together(many)] == [20, 20, 10]
