"""The filter tells its version with every request; one that is too old is refused by name, everywhere."""

import httpx
import pytest

from service import LEAST_FILTER, __version__
from tests.conftest import Service
from tests.service.talk import Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

NEWER = ("0.2.0", "0.2.1", "0.10.0", "1.0.0", "12.34.56")
OLDER = ("0.1.0", "0.1.99", "0.0.0")
UNREADABLE = ("new", "0.2", "0.2.0.1", "v0.2.0", "0.2.0-dev", "-1.2.3", "\xb2.\xb3.\xb9", "9" * 5000)


def requests(client: httpx.AsyncClient, version: str) -> list[httpx.Request]:
    """One request to each route of the filter."""
    talk = Talk(client)
    leaf = talk.turns(2)
    headers = httpx.Headers({"Precis-Filter": version}, encoding="latin-1")
    return [
        client.build_request("GET", "/v1/filter", headers=headers),
        client.build_request("POST", "/v1/chats/chat-1/context", headers=headers, json=talk.question(leaf)),
        client.build_request("PUT", "/v1/chats/chat-1/transcript", headers=headers, json=talk.transcript(leaf)),
    ]


async def test_the_filter_is_told_who_answers_it(shared_service: Service) -> None:
    answer = await shared_service.as_filter.get("/v1/filter")

    assert answer.status_code == 200
    who = {"version": __version__, "tenant": "default", "least_filter": LEAST_FILTER}
    assert answer.json() == who | {"crowded": [], "assumed": []}


async def test_it_is_told_of_models_whose_window_nobody_told(service: Service) -> None:
    for model, window, chat in (("known", 8192, "a"), ("guessed", None, "b")):
        talk = Talk(service.as_filter, chat, model=model, window=window)
        await talk.ingest(talk.turns(2))

    assumed = (await service.as_filter.get("/v1/filter")).json()["assumed"]

    assert assumed == [{"model": "guessed", "window": service.runtime.settings.window}]
    listed = (await service.as_operator.get("/v1/chats")).json()["chats"]
    assert {one["chat_id"]: one["window_assumed"] for one in listed} == {"a": False, "b": True}


async def test_it_is_told_of_models_whose_tools_leave_little_room(service: Service) -> None:
    for model, chat, tools in (("few", "a", 900), ("many", "b", 6400), ("many", "c", 6500), ("fewer", "d", 6400)):
        talk = Talk(service.as_filter, chat)
        talk.model = model
        await talk.ingest(talk.turns(2), overhead=tools)
    talk = Talk(service.as_filter, "e")
    talk.model = "fewer"
    await talk.ingest(talk.turns(2), overhead=100)  # its tools were switched off since

    crowded = (await service.as_filter.get("/v1/filter")).json()["crowded"]

    assert crowded == [{"model": "many", "window": 8192, "overhead": 6500}]


@pytest.mark.parametrize("version", NEWER)
async def test_a_filter_that_is_new_enough_is_answered(shared_service: Service, version: str) -> None:
    for request in requests(shared_service.as_filter, version):
        assert (await shared_service.as_filter.send(request)).status_code in (200, 202), request.url


@pytest.mark.parametrize("version", OLDER)
async def test_a_filter_that_is_too_old_is_told_the_least_version(shared_service: Service, version: str) -> None:
    for request in requests(shared_service.as_filter, version):
        answer = await shared_service.as_filter.send(request)

        assert answer.status_code == 426, request.url
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["upgrade"] == f"Precis-Filter/{LEAST_FILTER}"
        assert answer.headers["connection"].lower() == "upgrade"
        problem = answer.json()
        assert problem["type"] == "urn:precis:problem:filter-too-old"
        assert problem["least_filter"] == LEAST_FILTER
        assert version in problem["detail"]


async def test_the_connection_of_a_filter_that_is_too_old_stays_usable(shared_service: Service) -> None:
    async with httpx.AsyncClient(base_url=shared_service.url, limits=httpx.Limits(max_connections=1)) as client:
        client.headers = shared_service.as_filter.headers
        assert (await client.get("/v1/filter", headers={"Precis-Filter": "0.1.0"})).status_code == 426
        assert (await client.get("/v1/filter", headers={"Precis-Filter": LEAST_FILTER})).status_code == 200


@pytest.mark.parametrize("version", UNREADABLE)
async def test_a_version_that_cannot_be_read_is_a_bad_request(shared_service: Service, version: str) -> None:
    for request in requests(shared_service.as_filter, version):
        answer = await shared_service.as_filter.send(request)

        assert answer.status_code == 400, request.url
        assert "Precis-Filter" in answer.json()["detail"]
        assert len(answer.content) < 500


async def test_without_the_header_the_version_is_not_asked_for(shared_service: Service) -> None:
    for request in requests(shared_service.as_filter, ""):
        del request.headers["Precis-Filter"]
        assert (await shared_service.as_filter.send(request)).status_code in (200, 202), request.url


async def test_operators_are_not_asked_for_a_version(shared_service: Service) -> None:
    answer = await shared_service.as_operator.get("/v1/chats", headers={"Precis-Filter": "0.1.0"})

    assert answer.status_code == 200


async def test_an_unknown_key_learns_nothing_about_versions(shared_service: Service) -> None:
    headers = {"Authorization": "Bearer precis_fi_unknown", "Precis-Filter": "0.1.0"}

    assert (await shared_service.as_filter.get("/v1/filter", headers=headers)).status_code == 401
