"""Who is let in, and where to: keys, methods, routes and what is asked of a list."""

import httpx
import pytest

from service.storage import keys
from tests.conftest import Service
from tests.service.problems import CONTEXT, LEAF, TRANSCRIPT, is_problem, three_turns
from tests.service.talk import Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def talk(service: Service) -> Talk:
    return three_turns(service)


async def test_a_revoked_key_opens_nothing(talk: Talk, service: Service) -> None:
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create(connection, "default", "filter", "to be revoked")
        found = await keys.find(connection, key)
        assert found
        assert await keys.revoke(connection, found.id)
        assert not await keys.revoke(connection, found.id)
    async with httpx.AsyncClient(base_url=service.url, headers={"Authorization": f"Bearer {key}"}) as client:
        is_problem(await client.put(TRANSCRIPT, json=talk.transcript(LEAF)), 401)


@pytest.mark.parametrize(("method", "where"), [("GET", CONTEXT), ("POST", TRANSCRIPT), ("PATCH", "/v1/chats")])
async def test_a_wrong_method_is_a_problem_that_names_the_right_one(service: Service, method: str, where: str) -> None:
    response = await service.as_filter.request(method, where)

    is_problem(response, 405)
    assert response.headers["allow"]


@pytest.mark.parametrize("where", ["/v2", "/v1/chats/a/b/c", "/v1/chats/%2F%2F", "/../../etc/passwd", "/v1"])
async def test_an_unknown_route_is_a_problem(service: Service, where: str) -> None:
    is_problem(await service.as_operator.get(where), 404)


@pytest.mark.parametrize(
    "query",
    [
        "cursor=nonsense",
        "cursor=%00",
        "cursor=%C3%A9",
        "cursor=MQ==",
        "cursor=bm93IDE=",
        "cursor=MjAyNi0wMS0wMSA5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk=",  # 2026-01-01 and a huge id
        "cursor=MDAwMS0wMS0wMVQwMDowMDowMCsyMzowMCAx",  # 0001-01-01T00:00:00+23:00 1
        "cursor=OTk5OS0xMi0zMVQyMzo1OTo1OS0yMzowMCAx",  # 9999-12-31T23:59:59-23:00 1
        "cursor=" + "a" * 10_000,
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=many",
        "limit=" + "9" * 5000,
    ],
)
async def test_a_bad_cursor_or_limit_is_a_problem(service: Service, query: str) -> None:
    is_problem(await service.as_operator.get(f"/v1/chats?{query}"), 400, 422)


@pytest.mark.parametrize("checkpoint", ["0", "-1", "x", "9" * 40, "1.5"])
async def test_a_checkpoint_id_that_cannot_be_one_is_a_problem(service: Service, checkpoint: str) -> None:
    is_problem(await service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{checkpoint}"), 422)
