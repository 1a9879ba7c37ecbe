"""What stands between the service and others' pages, proxies and servers: headers, kinds of bodies, names."""

from typing import Any

import httpx
import pytest

from tests.conftest import Service
from tests.service.problems import CONTEXT, TRANSCRIPT, is_problem, three_turns
from tests.service.talk import Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("where", ["/v1/chats", "/v1/chats/none", "/v1/status", "/v1/nothing"])
async def test_no_browser_guesses_a_kind_and_no_cache_keeps_a_text(service: Service, where: str) -> None:
    answer = await service.as_operator.get(where)
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert answer.headers.get_list("cache-control") == ["no-store"]


def put(talk: Talk) -> dict[str, Any]:
    return talk.transcript(list(talk.rows)[-1])


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json"])
async def test_a_body_that_is_no_json_is_refused(service: Service, kind: str) -> None:
    talk = three_turns(service)
    for method, where, client in (
        ("PUT", TRANSCRIPT, service.as_filter),
        ("POST", CONTEXT, service.as_filter),
        ("POST", "/v1/events", service.as_events),
        ("POST", "/v1/keys", service.as_operator),
    ):
        refused = await client.request(method, where, content=b"{}", headers={"Content-Type": kind})
        assert is_problem(refused, 415)["type"] == "urn:precis:problem:wrong-media", where
    assert (await talk.put(put(talk))).status_code == 202


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"])
async def test_json_with_or_without_a_charset_is_taken(service: Service, kind: str) -> None:
    talk = three_turns(service)
    body = httpx.Request("PUT", "http://x", json=put(talk)).content
    taken = await service.as_filter.put(TRANSCRIPT, content=body, headers={"Content-Type": kind})
    assert taken.status_code == 202


async def test_a_body_without_a_kind_is_refused_and_no_body_needs_none(service: Service) -> None:
    headers = {"Authorization": f"Bearer {service.operator_key}"}
    async with httpx.AsyncClient(base_url=service.url, headers=headers) as http:
        is_problem(await http.post("/v1/keys", content=b"{}"), 415)
        assert (await http.post("/v1/jobs/retry")).status_code == 202
