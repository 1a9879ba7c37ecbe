"""How often an address may ask without a key in use, and what a refused key leaves behind."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from service.api import limits
from service.settings import Settings
from service.storage import keys
from tests.conftest import Service, serving
from tests.service.problems import is_problem
from tests.service.talk import rows, run_sql
from tests.web.visitor import visiting

Clock = Callable[[float], None]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The limits' clock, which stands still; moves it on by so many seconds."""
    now = [1000.0]
    monkeypatch.setattr(limits, "monotonic", lambda: now[0])
    monkeypatch.setattr(limits, "_HELD_BACK", 0.0)

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


async def get(service: Service, where: str, key: str = "", address: str = "9.9.9.9", **headers: str) -> httpx.Response:
    """Asks from an address that a proxy on this machine forwards."""
    given = {"X-Forwarded-For": address} | headers | ({"Authorization": f"Bearer {key}"} if key else {})
    async with httpx.AsyncClient(base_url=service.url, headers=given) as http:
        return await http.get(where)


async def test_wrong_keys_of_an_address_are_refused_unseen_and_others_are_not(
    settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []
    really = keys.find_known_key

    async def known(connection: Any, key: str) -> keys.Key | None:
        looked_up.append(key)
        return await really(connection, key)

    monkeypatch.setattr(keys, "find_known_key", known)
    monkeypatch.setattr(limits, "_MOST_WRONG_KEYS", 3)
    async with serving(settings) as service:
        assert (await get(service, "/v1/chats", service.operator_key)).status_code == 200
        for number in range(3):
            is_problem(await get(service, "/v1/chats", f"wrong-{number}"), 401)
        seen = len(looked_up)
        for _ in range(3):
            refused = await get(service, "/v1/chats", "wrong")
            is_problem(refused, 429)
            assert refused.headers["Retry-After"] == "60"
        is_problem(await get(service, "/v1/chats"), 429)
        assert len(looked_up) == seen

        assert (await get(service, "/v1/chats", service.operator_key)).status_code == 200, "a key in use"
        is_problem(await get(service, "/v1/chats", "wrong", "9.9.9.8"), 401)
        clock(60)
        is_problem(await get(service, "/v1/chats", "wrong"), 401)


def test_counts_are_bounded_however_many_addresses_there_are() -> None:
    limiter = limits.Limiter()
    for number in range(limits._MOST_COUNTED + 10):
        limiter.wrong_key(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(limiter._wrong_keys._counts) <= limits._MOST_COUNTED


async def test_refused_keys_are_in_their_tenants_audit_log_once_a_minute(settings: Settings, clock: Clock) -> None:
    query = "select actor, action, details from audit where action = 'key.refused' order by id"
    async with serving(settings) as service:
        async with service.runtime.database.engine.begin() as connection:
            gone = await keys.create_key(connection, "default", "operator", "gone")
        await run_sql(
            service.runtime, "update api_keys set revoked_at = now() where hash = :it", it=keys.hash_key(gone)
        )

        for _ in range(5):
            is_problem(await get(service, "/v1/chats", gone), 401)
        [one] = await rows(service.runtime, query)
        assert one.actor == f"{gone[:14]}… gone"
        assert (one.details["why"], one.details["address"]) == ("revoked", "9.9.9.9")

        is_problem(await get(service, "/v1/chats", service.filter_key, "9.9.9.8"), 403)
        assert [one.details["why"] for one in await rows(service.runtime, query)] == ["revoked", "wrong-scope"]
        clock(61)
        is_problem(await get(service, "/v1/chats", gone), 401)
        assert len(await rows(service.runtime, query)) == 3


async def test_a_refused_sign_in_with_a_known_key_is_in_the_audit_log(settings: Settings) -> None:
    async with serving(settings) as service:
        async with visiting(service, address="127.0.0.40") as visitor:
            await visitor.sign_in(service.filter_key)
            await visitor.sign_in(service.filter_key)
        found = await rows(service.runtime, "select action, details from audit")
        assert [one.action for one in found] == ["session.refused"]
        assert found[0].details["address"] == "127.0.0.40"
