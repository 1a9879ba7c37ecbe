"""What operators do to the service itself over REST: keys, the summariser and its breaker, dead work, settings."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import pytest_asyncio

from service.clients.summarisers import configured
from service.settings import load
from service.storage import keys
from service.storage.audit import Operator
from service.usecases.operate import try_summariser
from tests.conftest import Service, serving
from tests.fakes.scripted_llm import Fail, Say, scripted_llm
from tests.service.harness import Harness
from tests.service.problems import is_problem
from tests.service.talk import Json, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPEN = "insert into endpoints (name, failures, open_until) values (:name, 5, now() + interval '5 minutes')"
ENDPOINT = "openai:m http://llm/v1"


@pytest_asyncio.fixture(loop_scope="module")
async def neighbour(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """The operator of another tenant."""
    async with AsyncExitStack() as stack:
        async with service.runtime.database.engine.begin() as connection:
            key = await keys.create(connection, "neighbour", "operator", "theirs")
        headers = {"Authorization": f"Bearer {key}"}
        yield await stack.enter_async_context(httpx.AsyncClient(base_url=service.url, headers=headers))


async def audited(service: Service) -> list[tuple[str, Json]]:
    found = await rows(service.runtime, "select action, details from audit order by id")
    return [(one.action, one.details) for one in found]


async def test_a_key_is_told_once_opens_what_it_is_for_and_is_revoked(service: Service) -> None:
    made = await service.as_operator.post("/v1/keys", json={"scope": "filter", "name": "my webui"})
    assert made.status_code == 201
    assert made.headers["Cache-Control"] == "no-store"
    told = made.json()
    assert told["key"].startswith(f"{told['prefix']}")
    headers = {"Authorization": f"Bearer {told['key']}"}
    async with httpx.AsyncClient(base_url=service.url, headers=headers) as http:
        assert (await http.get("/v1/filter")).json()["tenant"] == "default"

    listed = await service.as_operator.get("/v1/keys")
    assert told["key"] not in listed.text
    (row_of_it,) = [one for one in listed.json()["keys"] if one["id"] == told["id"]]
    assert (row_of_it["name"], row_of_it["scope"], row_of_it["revoked_at"]) == ("my webui", "filter", None)
    told_of_it = {"id", "scope", "name", "prefix", "created_at", "revoked_at", "expires_at", "networks"}
    assert set(row_of_it) == told_of_it | {"last_used_at", "last_filter", "tenant", "tenant_name", "seconds_left"}

    assert (await service.as_operator.delete(f"/v1/keys/{told['id']}")).status_code == 204
    is_problem(await service.as_operator.delete(f"/v1/keys/{told['id']}"), 404)
    async with service.runtime.database.engine.connect() as connection:
        assert await keys.find(connection, told["key"]) is None
    assert await audited(service) == [
        ("key.create", {"key": told["id"], "scope": "filter", "name": "my webui"}),
        ("key.revoke", {"key": told["id"], "name": "my webui"}),
    ]


async def test_with_several_tenants_no_key_of_one_closes_the_breaker_of_all(service: Service) -> None:
    await run_sql(service.runtime, OPEN, name=ENDPOINT)
    await run_sql(service.runtime, "insert into tenants (name) values ('another')")

    answer = await service.as_operator.post("/v1/summariser/reset")
    await run_sql(service.runtime, "delete from tenants where name = 'another'")

    assert "closes by itself" in is_problem(answer, 403)["detail"]
    assert len((await service.as_operator.get("/v1/status")).json()["endpoints"]) == 1


async def test_a_breaker_is_closed_by_name_or_with_all_others(service: Service) -> None:
    await run_sql(service.runtime, "delete from tenants where name <> 'default'")
    for name in (ENDPOINT, "openai:other http://llm/v1"):
        await run_sql(service.runtime, OPEN, name=name)
    reset = "/v1/summariser/reset"
    is_problem(await service.as_operator.post(reset, json={"name": "nobody"}), 404)
    assert (await service.as_operator.post(reset, json={"name": ENDPOINT})).json() == {"reset": [ENDPOINT]}
    assert (await service.as_operator.post(reset)).json() == {"reset": ["openai:other http://llm/v1"]}
    assert (await service.as_operator.get("/v1/status")).json()["endpoints"] == []
    assert [action for action, _ in await audited(service)] == ["summariser.reset"] * 2


@pytest.mark.asyncio(loop_scope="function")
async def test_one_call_of_the_summariser_says_how_long_it_took_or_why_it_failed(urls: Any) -> None:
    async with scripted_llm(Say("The pump runs.")) as llm:
        told = {"summariser": "openai", "summariser_url": llm.openai_url, "summariser_model": "scripted"}
        settings = load(database_url=urls.database, redis_url=urls.redis, **told)
        async with serving(settings) as service:
            good = (await service.as_operator.post("/v1/summariser/test")).json()
            llm.script(Fail(401, {"error": "wrong key"}))
            bad = await service.as_operator.post("/v1/summariser/test")
            assert [details for _, details in await audited(service)] == [{"answered": True}, {"answered": False}]

    assert (good["summariser"], good["text"], good["error"]) == ("openai:scripted", "The pump runs.", None)
    assert good["tokens_read"] > good["tokens_written"] > 0
    assert (good["finish"], good["seconds"] >= 0) == ("stop", True)
    assert bad.status_code == 200
    assert "HTTP 401. Check the API key" in bad.json()["error"]
    assert "wrong key" not in bad.text
    assert bad.json()["text"] is None


async def test_a_test_says_nothing_of_anybodys_chat(harness: Harness) -> None:
    await harness.talk.ingest(harness.talk.turns(3))
    summariser = configured(harness.worker_context().settings, harness.http)
    await try_summariser(harness.service.runtime.database.engine, Operator(1, "test"), summariser)
    (asked,) = harness.llm.requests
    assert "The pump in cellar 3" in asked.text
    assert not [row["content"] for row in harness.talk.rows.values() if row["content"] in asked.text]
