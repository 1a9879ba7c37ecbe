"""Signing in to the pages and out, what a session opens and what ends it, and whose forms are taken."""

from http.cookies import SimpleCookie

import pytest

from service.names import FIRST_TENANT
from service.storage import keys
from tests.conftest import Service
from tests.service.talk import long_chat, row, rows, run_sql
from tests.web.visitor import SAME_ORIGIN, Page, Visitor, visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

HTTPS = {"X-Forwarded-Proto": "https"}


def cookie(page: Page) -> tuple[str, dict[str, str]]:
    """The name and the attributes of the cookie that an answer sets."""
    ((name, morsel),) = SimpleCookie(page.response.headers["set-cookie"]).items()
    return name, {key: str(value) for key, value in morsel.items() if value} | {"value": morsel.value}


async def test_a_page_asks_for_a_key_and_then_shows_what_was_asked_for(service: Service) -> None:
    async with visiting(service) as visitor:
        refused = await visitor.get("/chats?state=dead&user=a%26b")
        assert refused.status == 303
        form_page = await visitor.get(refused.leads_to)
        form = form_page.form("/sign-in")
        page = await visitor.send(form, ("key", service.operator_key))

        assert page.status == 303
        assert page.leads_to == "/chats?state=dead&user=a%26b"
        assert (await visitor.get(page.leads_to)).status == 200
    last = await row(service.runtime, "select actor, action from audit order by id desc limit 1")
    assert last.action == "session.begin"
    assert last.actor.startswith(service.operator_key[:12])


@pytest.mark.parametrize("which", ["filter", "revoked", "none"])
async def test_only_an_operator_key_in_use_signs_in(service: Service, which: str) -> None:
    async with service.runtime.database.engine.begin() as connection:
        revoked = await keys.create_key(connection, FIRST_TENANT, "operator", "revoked")
    await run_sql(service.runtime, "update api_keys set revoked_at = now() where name = 'revoked'")
    key = {"filter": service.filter_key, "revoked": revoked, "none": ""}[which]
    async with visiting(service, address="127.0.0.10") as visitor:
        page = await visitor.sign_in(key)

        assert page.status == 401
        assert "no operator key in use" in page.text
        assert "set-cookie" not in page.response.headers
        assert not key or key not in page.html
        assert (await visitor.get("/chats")).status == 303


async def test_scripts_and_other_sites_do_not_get_the_cookie(service: Service) -> None:
    async with visiting(service) as visitor:
        name, attributes = cookie(await visitor.sign_in(service.operator_key))
    assert name == "precis"
    assert attributes.pop("value")
    assert attributes == {"httponly": "True", "samesite": "strict", "path": "/", "max-age": "43200"}


async def test_behind_a_proxy_with_https_the_cookie_is_guarded_by_its_name(service: Service) -> None:
    # As a proxy on this machine says it; `FORWARDED_ALLOW_IPS` names others (docs/howto/tls.md).
    async with visiting(service) as visitor:
        begun = await visitor.post("/sign-in", [("key", service.operator_key)], **SAME_ORIGIN, **HTTPS)
        name, attributes = cookie(begun)
        assert name == "__Host-precis"
        assert attributes["secure"]
        assert attributes["path"] == "/"
        assert "domain" not in attributes
        sent = {"Cookie": f"{name}={attributes['value']}"}
        visitor.client.cookies.clear()

        assert (await visitor.get("/chats", headers=sent | HTTPS)).status == 200
        assert (await visitor.get("/chats", headers=sent)).status == 303, "on http, another cookie counts"
        # An older browser names where a form was, in https.
        host = service.url.removeprefix("http://")
        out = await visitor.get("/audit", headers=sent | HTTPS)
        ended = await visitor.post("/sign-out", out.form("/sign-out").fields, Origin=f"https://{host}", **sent, **HTTPS)
        assert ended.leads_to == "/sign-in"
        assert cookie(ended)[0] == "__Host-precis"


async def test_a_session_ends_after_twelve_hours(service: Service, visitor: Visitor) -> None:
    left = await row(service.runtime, "select max(expires_at) - now() as left from sessions")
    assert 0 <= 12 * 3600 - left.left.total_seconds() < 600
    await run_sql(service.runtime, "update sessions set expires_at = now()")

    assert (await visitor.get("/chats")).leads_to == "/sign-in?back=%2Fchats"

    async with visiting(service, service.operator_key):
        assert len(await rows(service.runtime, "select 1 from sessions")) == 1, "what has expired is forgotten"


async def test_signing_out_ends_this_session_only(service: Service, visitor: Visitor) -> None:
    async with visiting(service, service.operator_key) as elsewhere:
        kept = dict(visitor.client.cookies)
        left = await visitor.send((await visitor.get("/jobs")).form("/sign-out"))

        assert left.leads_to == "/sign-in"
        assert "Max-Age=0" in left.response.headers["set-cookie"]
        visitor.client.cookies.update(kept)
        assert (await visitor.get("/jobs")).status == 303, "the cookie is worth nothing any more"
        assert (await elsewhere.get("/jobs")).status == 200


async def test_neither_a_key_is_a_cookie_nor_a_cookie_a_key(service: Service, visitor: Visitor) -> None:
    value = visitor.client.cookies["precis"]
    async with visiting(service) as other:
        other.client.cookies["precis"] = service.operator_key
        assert (await other.get("/chats")).status == 303
        assert (await other.get("/chats", headers={"Authorization": f"Bearer {service.operator_key}"})).status == 303
        assert (await other.get("/v1/chats", headers={"Authorization": f"Bearer {value}"})).status == 401
    assert (await visitor.get("/v1/chats")).status == 401
    assert (await visitor.get("/v1/status")).status == 401
    assert value not in str(await rows(service.runtime, "select * from sessions")), "only its hash is stored"


@pytest.mark.parametrize(
    "back",
    [
        "//evil.example",
        "https:evil.example",
        "/\t/evil.example",
        "",
    ],
)
async def test_nobody_is_led_away_after_signing_in(service: Service, back: str) -> None:
    async with visiting(service) as visitor:
        assert (await visitor.sign_in(service.operator_key, back)).leads_to == "/"
        form = (await visitor.get("/sign-in", params={"back": back})).form("/sign-in")
        assert dict(form.fields)["back"] == "/"


@pytest.mark.parametrize(
    "sent",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "cross-site", "Origin": "{here}"},
        {"Origin": "null"},
        {"Origin": "{here}.evil.example"},
        {"Accept": "*/*"},
    ],
)
async def test_a_form_that_no_page_of_the_service_sent_is_refused(
    service: Service, visitor: Visitor, sent: dict[str, str]
) -> None:
    await long_chat(service.as_filter)
    given = {name: value.format(here=service.url) for name, value in sent.items()}
    form = (await visitor.get("/chats/chat-1")).form("/chats/chat-1/delete")

    refused = await visitor.post(form.action, form.fields, **given)

    assert refused.status == 403
    assert "not sent by a page of this service" in refused.text
    assert (await visitor.get("/chats/chat-1")).status == 200
    assert (await visitor.post("/sign-in", [("key", service.operator_key)], **given)).status == 403


@pytest.mark.parametrize("kind", ["application/json", ""])
async def test_only_a_form_is_taken(service: Service, visitor: Visitor, kind: str) -> None:
    await long_chat(service.as_filter)
    form = (await visitor.get("/chats/chat-1")).form("/chats/chat-1/delete")
    body = "&".join(f"{name}={value}" for name, value in form.fields)
    sent = await visitor.client.post(form.action, content=body, headers=SAME_ORIGIN | {"Content-Type": kind})
    assert sent.status_code == 400
    assert "Send a form as" in sent.text


@pytest.mark.parametrize("body", [b"name=%ff", b"\xff=1", b"&".join(b"a=1" for _ in range(6000))])
async def test_a_form_that_cannot_be_read_is_refused_with_a_reason(visitor: Visitor, body: bytes) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    sent = await visitor.client.post("/jobs/retry", content=body, headers=SAME_ORIGIN | kind)
    assert sent.status_code == 400
    assert "The form is not UTF-8, or has too many fields" in sent.text


async def test_a_part_of_a_page_asks_for_a_reload_when_the_session_has_ended(
    service: Service, visitor: Visitor
) -> None:
    await run_sql(service.runtime, "update sessions set expires_at = now()")
    part = await visitor.get("/chats?part=true", headers={"HX-Request": "true"})
    assert part.status == 204
    assert part.response.headers["HX-Refresh"] == "true"
