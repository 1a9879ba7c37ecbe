"""What the filter is told of the service: who answers, and that it is too old for this wire."""

import httpx
import pytest

from service import LEAST_FILTER
from service.storage import keys
from tests.conftest import Service
from tests.service.talk import Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_operators_see_whether_nobody_told_the_window_of_a_chats_model(service: Service) -> None:
    for model, window, chat in (("known", 8192, "a"), ("guessed", None, "b")):
        talk = Talk(service.as_filter, chat, model=model, window=window)
        await talk.ask(talk.turns(2))
    await service.stored()

    listed = (await service.as_operator.get("/v1/chats")).json()["chats"]
    assert {one["chat_id"]: one["window_assumed"] for one in listed} == {"a": False, "b": True}


@pytest.mark.parametrize("chosen", [None, "", "chat", "small"])
async def test_it_is_told_who_writes_summaries(service: Service, chosen: str | None) -> None:
    async with service.runtime.database.engine.begin() as connection:
        await keys.choose_summariser(connection, "default", chosen)
    told = (await service.as_filter.get("/v1/filter")).json()
    assert (told["endpoint"], told["summariser"]) == (None, chosen)


async def test_a_filter_that_is_too_old_is_told_the_least_version_and_other_clients_need_none(
    shared_service: Service,
) -> None:
    talk = Talk(shared_service.as_filter)
    asked = talk.request(talk.turns(2))

    async def ask(headers: dict[str, str]) -> httpx.Response:
        return await talk.client.post("/v1/compress", json=asked, headers=headers)

    old = await ask({"Precis-Filter": "0.9.9"})

    assert old.status_code == 426
    assert old.headers["upgrade"] == f"Precis-Filter/{LEAST_FILTER}"
    assert old.json()["type"] == "urn:precis:problem:filter-too-old"
    assert "0.9.9" in old.json()["detail"]
    assert (await ask({"Precis-Filter": "1.0"})).status_code == 400
    assert (await ask({})).status_code == 200
