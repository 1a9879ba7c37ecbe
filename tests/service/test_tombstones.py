"""A deleted chat does not come back with an ingest that is under way, and nobody says so to its user."""

import asyncio

import httpx
import pytest

from service.usecases.retain import remove_expired
from tests.conftest import Service
from tests.service.events import tell
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.talk import Talk, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def put(talk: Talk, leaf: str) -> httpx.Response:
    return await talk.put(talk.turn(leaf))


async def stored(service: Service) -> list[str]:
    return [one.external_id for one in await rows(service.runtime, "select external_id from chats order by 1")]


async def let_a_day_go_by(service: Service) -> None:
    await run_sql(service.runtime, "update tombstones set until = until - interval '1 day'")


@pytest.mark.parametrize("known", [True, False], ids=["stored", "never stored"])
async def test_a_chat_that_open_webui_deleted_is_gone_for_a_day(service: Service, talk: Talk, known: bool) -> None:
    leaf = talk.turns(2)
    if known:
        await talk.ingest(leaf)
    await tell(service, "chat.deleted", chat_id=talk.chat)

    refused = await put(talk, leaf)

    assert is_problem(refused, 410)["type"] == "urn:precis:problem:gone"
    assert (await talk.ask(leaf))["status"] == "not_needed"
    await service.stored()
    assert await stored(service) == [], "nor does a request bring it back"
    await let_a_day_go_by(service)
    assert (await put(talk, leaf)).status_code == 202


async def test_all_chats_of_a_user_who_stays_are_gone_and_new_ones_are_stored(service: Service, talk: Talk) -> None:
    leaf = talk.turns(2)
    await talk.ingest(leaf)
    unsaved = Talk(service.as_filter, "content:4711")
    await unsaved.ingest(unsaved.turns(1))
    await tell(service, "chat.deleted_all", user_id=talk.user)
    assert (await put(talk, leaf)).status_code == 410
    await unsaved.ingest(unsaved.turns(1))
    new = Talk(service.as_filter, "new")
    await new.ingest(new.turns(1))
    assert await stored(service) == ["content:4711", "new"]


async def test_an_operators_deletion_holds_only_if_it_was_for_good(service: Service, talk: Talk) -> None:
    leaf = talk.turns(2)
    await talk.ingest(leaf)
    assert (await service.as_operator.delete("/v1/chats/chat-1")).status_code == 204
    await talk.ingest(leaf)
    assert (await service.as_operator.delete("/v1/chats/chat-1?for_good=true")).status_code == 204
    assert (await put(talk, leaf)).status_code == 410


async def test_tombstones_name_nobody_and_go_when_their_day_is_over(service: Service, talk: Talk) -> None:
    await tell(service, "user.deleted", user_id=talk.user)
    await tell(service, "chat.deleted", chat_id=talk.chat)
    found = await rows(service.runtime, "select hash from tombstones")
    assert {len(one.hash) for one in found} == {32}
    await remove_expired(service.runtime.database.engine)
    assert len(await rows(service.runtime, "select 1 from tombstones")) == 2
    await let_a_day_go_by(service)
    await remove_expired(service.runtime.database.engine)
    assert await rows(service.runtime, "select 1 from tombstones") == []


async def race(service: Service, number: int, event: str) -> None:
    """A deletion against ingests of a chat, new or growing, by its user and, if only the user leaves, another one."""
    talk = Talk(service.as_filter, f"race-{number}", user=f"user-{number}")
    leaf = talk.turns(1, 60)
    if number % 2:
        await talk.ingest(leaf)
    grown = talk.turns(1, 60, leaf=leaf, prefix="more-")
    told = {"user_id": talk.user} | ({"chat_id": talk.chat, "left": []} if event == "chat.deleted" else {})
    guest = talk.turn(grown, user="guest")
    ingests = [put(talk, leaf), put(talk, grown), talk.client.post("/v1/compress", json=talk.request(grown))]
    if number % 2:
        ingests.append(talk.put(guest))
    deletion = tell(service, event, **told)
    order = [*ingests[: number % 3], deletion, *ingests[number % 3 :]]
    answers = await asyncio.gather(*order)
    assert {one.status_code for one in answers if one} <= {200, 202, 410, 403, 409}


@pytest.mark.parametrize("races", [30, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("event", ["chat.deleted", "user.deleted"])
async def test_of_all_races_between_a_deletion_and_ingests_none_brings_a_chat_back(
    harness: Harness, races: int, event: str
) -> None:
    for first in range(0, races, 10):
        await asyncio.gather(*(race(harness.service, number, event) for number in range(first, first + 10)))
        await harness.service.stored()
    assert await stored(harness.service) == []
