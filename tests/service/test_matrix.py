"""Every route with every identity: the routes are those of the application, the answers follow from a few rules.

What is asked for does not exist (`nobodys`), and bodies are empty, so that whoever is let in gets a 404 or a 422 at
most: the matrix is about doors, not about what is behind them.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from fastapi.routing import APIRoute
from starlette.routing import Route

from service.storage import keys
from tests.conftest import Service
from tests.service.talk import run_sql, tables
from tests.web.visitor import visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPEN = {"/livez", "/readyz", "/version", "/docs", "/openapi.json", "/sign-in"}
API = ("/v1/", "/beta/")
FILTERS = {
    *(f"/v1/{name}" for name in ("compress", "turns", "prompts/next", "prompts/{prompt_id}/reply", "recall", "filter")),
    *(f"/v1/chats/{{chat_id}}/{name}" for name in ("view", "left-alone")),
    "/beta/litellm_basic_guardrail_api",
}
# Behind the door: done, nothing there, not in this state, no such body, or not now.
IN = {200, 201, 202, 204, 400, 404, 409, 422}
PAGE_IN = {200, 303, 400, 404, 409, 422}


@dataclass(frozen=True)
class Identity:
    """Somebody who asks: with which headers, and what the key may do, if it may anything."""

    name: str
    headers: Mapping[str, str] = field(default_factory=dict)
    scope: keys.KeyScope | None = None
    session: keys.KeyScope | None = None


def every_route(service: Service) -> Iterator[tuple[str, str]]:
    """The method and the template of each route, of REST and of the pages."""
    described = service.app.openapi()["paths"]
    yield from ((method.upper(), path) for path, methods in described.items() for method in methods)
    pages = [route for route in _flat(service.app.routes) if route.path not in described]
    for route in pages:
        yield from ((method, route.path) for method in sorted(route.methods or ()) if method != "HEAD")


def _flat(routes: object) -> Iterator[Route]:
    for route in routes:  # type: ignore[attr-defined]
        if included := getattr(route, "original_router", None):
            yield from _flat(included.routes)
        elif isinstance(route, APIRoute | Route):
            yield route


def _where(path: str) -> str:
    """The path of something that is not there."""
    return re.sub(
        r"\{(chat_id|id)(:path)?\}", "nobodys", re.sub(r"\{(\w*_id|identity|checkpoint)(:\w+)?\}", _number, path)
    )


def _number(found: re.Match[str]) -> str:
    return found[0] if found[1] == "chat_id" else "4000000"


def _wanted(method: str, path: str, who: Identity) -> set[int]:
    """The rules."""
    if path in OPEN:
        if (method, path) != ("POST", "/sign-in"):
            return {200}
        # A form that no page of ours sent; or one that did, without a key in it.
        return {401} if who.session else {403}
    if not path.startswith(API):
        return {401} if path == "/metrics" else _wanted_of_page(method, path, who)
    if who.scope is None:
        return {401}
    return IN if _scope(method, path) in keys.OPENS[who.scope] else {403}


def _scope(method: str, path: str) -> keys.KeyScope:
    if path == "/v1/events":
        return "events"
    if path in FILTERS:
        return "filter"
    if path.startswith("/v1/keys"):
        return "operator"
    return "operator:read" if method == "GET" else "operator"


def _wanted_of_page(method: str, path: str, who: Identity) -> set[int]:
    if who.session is None or path == "/sign-out":
        return {303}
    return PAGE_IN if method == "GET" or who.session == "operator" else {403}


@pytest_asyncio.fixture(loop_scope="module")
async def identities(service: Service) -> AsyncIterator[list[Identity]]:
    async def key(scope: keys.KeyScope, tenant: str = "default") -> str:
        async with service.runtime.database.engine.begin() as connection:
            return await keys.create_key(connection, tenant, scope, "matrix")

    def bearer(value: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {value}"}

    revoked, expired = await key("operator"), await key("operator")
    query = "update api_keys set {} = now() where hash = :it"
    await run_sql(service.runtime, query.format("revoked_at"), it=keys.hash_key(revoked))
    await run_sql(service.runtime, query.format("expires_at"), it=keys.hash_key(expired))
    scopes: list[keys.KeyScope] = ["filter", "events", "operator:read", "operator"]
    found = [
        Identity("nobody"),
        Identity("half a key", bearer(service.filter_key[:-1])),
        Identity("a key as a password", {"Authorization": f"Basic {service.operator_key}"}),
        Identity("revoked", bearer(revoked)),
        Identity("expired", bearer(expired)),
        *[Identity(scope, bearer(await key(scope)), scope) for scope in scopes],
        Identity("another's operator", bearer(await key("operator", "another")), "operator"),
    ]
    for scope in scopes[2:]:
        async with visiting(service, await key(scope)) as visitor:
            cookies = "; ".join(f"{name}={value}" for name, value in visitor.client.cookies.items())
            same_site = {"Cookie": cookies, "Sec-Fetch-Site": "same-origin"}
            found.append(Identity(f"session of {scope}", same_site, session=scope))
    yield found


async def test_every_route_answers_every_identity_as_the_rules_say(
    service: Service, identities: list[Identity]
) -> None:
    routes = sorted(set(every_route(service)))
    assert ("DELETE", "/v1/keys/{key_id}") in routes
    assert ("POST", "/people/{user_id}/erase") in routes
    unexpected: list[str] = []
    before = {name: rows for name, rows in (await tables(service.runtime)).items() if name in ("chats", "messages")}
    async with httpx.AsyncClient(base_url=service.url, timeout=120) as http:
        for method, path in routes:
            for who in identities:
                where, headers = _where(path), dict(who.headers)
                if method == "POST" and not path.startswith(API):
                    headers["Content-Type"] = "application/x-www-form-urlencoded"
                answer = await http.request(method, where, headers=headers)
                wanted = _wanted(method, path, who)
                if answer.status_code not in wanted:
                    unexpected.append(f"{method} {path} as {who.name}: {answer.status_code}, not {sorted(wanted)}")
                if path.startswith(API):
                    assert (answer.headers.get("www-authenticate") == "Bearer") == (answer.status_code == 401)
                    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
                    assert answer.headers.get_list("cache-control") == ["no-store"]
    assert not unexpected, "\n".join(unexpected)
    assert len(routes) * len(identities) > 500
    after = {name: rows for name, rows in (await tables(service.runtime)).items() if name in before}
    assert after == before


@pytest.mark.parametrize("identity", ["a/b", "a%2Fb", "x/find", "\u202ea\u2066"])
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


async def test_an_id_of_bytes_that_are_no_text_is_refused(service: Service) -> None:
    """Read leniently, all of them are the same character, and all of these chats one."""
    for method, path in every_route(service):
        for identity in ("%ff", "%ED%A0%80"):
            where = re.sub(r"\{(chat_id|user_id)\}", identity, path)
            if where != path:
                answer = await service.as_operator.request(method, re.sub(r"\{\w+\}", "1", where))
                assert answer.status_code == 400, (method, path)
