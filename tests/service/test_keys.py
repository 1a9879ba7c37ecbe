"""Keys: what each scope opens, until when, and what is known of their use."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from service.storage import keys
from tests.conftest import Service
from tests.service.problems import is_problem
from tests.service.talk import row, rows, run_sql
from tests.web.visitor import SAME_ORIGIN, visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def made(service: Service, scope: keys.KeyScope, **more: Any) -> str:
    async with service.runtime.database.engine.begin() as connection:
        return await keys.create_key(connection, "default", scope, f"of {scope}", **more)


async def ask(service: Service, key: str, method: str, where: str, **more: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} | more.pop("headers", {})
    async with httpx.AsyncClient(base_url=service.url, headers=headers) as http:
        return await http.request(method, where, **more)


@contextmanager
def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    """The clock of the remembered keys is so many seconds ahead."""
    now = time.monotonic
    with monkeypatch.context() as patched:
        patched.setattr("service.api.key_cache.monotonic", lambda: now() + seconds)
        yield


async def test_an_expired_key_opens_nothing_even_while_it_is_remembered_and_its_sessions_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await made(service, "operator", seconds=8)
    assert (await ask(service, key, "GET", "/v1/chats")).status_code == 200
    async with visiting(service, key) as visitor:
        assert (await visitor.get("/jobs")).status == 200
        await run_sql(service.runtime, "update api_keys set expires_at = now() where hash = :it", it=keys.hash_key(key))
        with later(monkeypatch, 9):  # less than the ten for which it would be remembered
            is_problem(await ask(service, key, "GET", "/v1/chats"), 401)
        assert (await visitor.get("/jobs")).status == 303
        assert (await visitor.sign_in(key)).status == 401


async def test_the_last_use_of_a_key_and_the_filters_version_are_stored_beside_requests(service: Service) -> None:
    key = await made(service, "filter")
    await ask(service, key, "GET", "/v1/filter", headers={"Precis-Filter": "1.0.1"})
    query = "select id, last_used_at, last_filter from api_keys where hash = :it"
    assert (await row(service.runtime, query, it=keys.hash_key(key))).last_used_at is None, "no request writes it"

    await service.runtime.counting.store()
    await ask(service, key, "GET", "/v1/filter")
    await service.runtime.counting.store()

    found = await row(service.runtime, query, it=keys.hash_key(key))
    assert found.last_used_at is not None
    assert found.last_filter == "1.0.1", "another client does not hide it"
    listed = (await service.as_operator.get("/v1/keys")).json()["keys"]
    assert "1.0.1" in [one["last_filter"] for one in listed]
    async with service.runtime.database.engine.begin() as connection:
        await keys.note_uses(connection, {found.id: keys.KeyUse(0.0, "")})
    now = await row(service.runtime, query, it=keys.hash_key(key))
    assert now.last_used_at == found.last_used_at, "another process stored an earlier use later"


async def test_a_key_is_believed_for_ten_seconds_and_then_read_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await made(service, "filter")
    assert (await ask(service, key, "GET", "/v1/filter")).status_code == 200
    await run_sql(service.runtime, "update api_keys set revoked_at = now() where hash = :it", it=keys.hash_key(key))

    assert (await ask(service, key, "GET", "/v1/filter")).status_code == 200
    with later(monkeypatch, 11):
        is_problem(await ask(service, key, "GET", "/v1/filter"), 401)


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
    (found,) = [one for one in listed.json()["keys"] if one["id"] == told["id"]]
    assert (found["name"], found["scope"], found["revoked_at"]) == ("my webui", "filter", None)

    assert (await service.as_operator.delete(f"/v1/keys/{told['id']}")).status_code == 204
    is_problem(await service.as_operator.delete(f"/v1/keys/{told['id']}"), 404)
    async with service.runtime.database.engine.connect() as connection:
        assert await keys.find_valid_key(connection, told["key"]) is None
    audited = await rows(service.runtime, "select action, details->>'key' as key from audit order by id")
    assert [tuple(one) for one in audited] == [(f"key.{done}", str(told["id"])) for done in ("create", "revoke")]


async def test_a_refused_key_is_one_line_of_the_log_and_any_number_of_them_locks_nobody_out(service: Service) -> None:
    revoked = await made(service, "operator")
    await run_sql(service.runtime, "update api_keys set revoked_at = now() where hash = :it", it=keys.hash_key(revoked))
    wrong = [*(f"precis_op_guess{number}" for number in range(50)), revoked, service.filter_key]
    headers = {"X-Forwarded-For": "9.9.9.9"}  # of a proxy on this machine

    with capture_logs() as logs:
        async with httpx.AsyncClient(base_url=service.url, headers=headers) as http:
            for key in wrong:
                response = await http.get("/v1/chats", headers={"X-Api-Key": key})
                assert response.status_code in (401, 403)
            assert (await http.get("/v1/chats", headers={"X-Api-Key": service.operator_key})).status_code == 200
            await http.post("/sign-in", data={"key": revoked}, headers=SAME_ORIGIN)

    refused = [line for line in logs if line["event"] in ("key.refused", "session.refused")]
    assert {line["address"] for line in refused} == {"9.9.9.9"}
    assert [line["why"] for line in refused[:-3]] == ["unknown"] * 50
    assert "guess" not in str(refused)
    assert [line["why"] for line in refused[-3:]] == ["revoked", "wrong-scope", "no operator key in use"]
    assert [line["key"] for line in refused[-3::2]] == [f"{revoked[:14]}… of operator"] * 2
