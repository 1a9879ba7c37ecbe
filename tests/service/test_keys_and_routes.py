"""Who is let in, and where to: keys, methods, routes and what is asked of a list."""

import re
from urllib.parse import quote

import pytest

from tests.conftest import Service
from tests.service.problems import is_problem, three_turns
from tests.service.talk import Talk
from tests.service.test_matrix import every_route

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def talk(service: Service) -> Talk:
    return three_turns(service)


@pytest.mark.parametrize("identity", ["a/b", "/", "a%2Fb", "%", "x/find", "\u202ea\u2066"])
async def test_each_route_takes_an_id_whatever_characters_it_has(service: Service, identity: str) -> None:
    quoted = quote(identity, safe="")
    found = [one for one in every_route(service) if "{chat_id}" in one[1] or "{user_id}" in one[1]]
    assert len(found) > 20

    for method, path in found:
        where = re.sub(r"\{(chat_id|user_id)\}", quoted, path)
        answer = await service.as_operator.request(method, re.sub(r"\{\w+\}", "1", where))
        told = method, path, answer.text
        assert answer.status_code != 405, told
        assert '"Not Found"' not in answer.text, told


@pytest.mark.parametrize(
    "query",
    [
        "cursor=%C3%A9",
        "cursor=MjAyNi0wMS0wMSA5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk=",  # 2026-01-01 and a huge id
        "cursor=MDAwMS0wMS0wMVQwMDowMDowMCsyMzowMCAx",  # 0001-01-01T00:00:00+23:00 1
        "cursor=OTk5OS0xMi0zMVQyMzo1OTo1OS0yMzowMCAx",  # 9999-12-31T23:59:59-23:00 1
        "cursor=" + "a" * 10_000,
        "limit=201",
    ],
)
async def test_a_bad_cursor_or_limit_is_a_problem(service: Service, query: str) -> None:
    is_problem(await service.as_operator.get(f"/v1/chats?{query}"), 400, 422)
