"""The pages of people: who is listed, what of one is shown, and an erasure."""

import re

import pytest

from service.names import FIRST_TENANT
from service.storage import keys
from tests.conftest import Service
from tests.service.talk import Talk, rows, run_sql
from tests.web.visitor import Page, Visitor, visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BEN = "ann-4711", "ben-0815"


async def two(service: Service) -> tuple[list[str], list[str]]:
    """Ann's chat, in which Ben wrote too, and Ben's clone of it; returns what each wrote, a line for each message."""
    ann = Talk(service.as_filter, user=ANN)
    leaf = ann.turns(2)
    await ann.ingest(leaf)
    guest = Talk(service.as_filter, "chat-1", {name: dict(one) for name, one in ann.rows.items()}, user=BEN)
    await guest.ingest(guest.turns(1, leaf=leaf, prefix="ben-"), after=leaf)
    clone = Talk(service.as_filter, "clone", {name: dict(one) for name, one in ann.rows.items()}, user=BEN)
    await clone.ingest(clone.turns(1, leaf=leaf, prefix="clone-"))
    of_ben = {name: one for talk in (guest, clone) for name, one in talk.rows.items() if name not in ann.rows}
    return _lines(ann.rows), _lines(of_ben)


def _lines(messages: dict[str, dict[str, object]]) -> list[str]:
    return [str(one["content"]).splitlines()[0] for one in messages.values()]


async def noted(service: Service) -> list[str]:
    """What was done to users; their ids are nowhere in it."""
    found = await rows(service.runtime, "select action, details::text as details from audit order by id")
    assert not any(ANN in one.details or BEN in one.details for one in found)
    return [one.action for one in found if one.action.startswith("user.")]


def listed(page: Page) -> list[str]:
    return re.findall(r'<th scope="row"><a class="id" href="/people/[^"]+">([^<]+)</a>', page.html)


async def test_a_long_list_of_people_leads_to_its_next_page_and_a_form_may_be_empty(
    service: Service, visitor: Visitor
) -> None:
    await run_sql(
        service.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens)"
        " select 1, 'chat-' || n, 'user-' || n, 'm', 8192 from generate_series(1, 60) n",
    )
    await run_sql(service.runtime, "insert into chat_authors select tenant_id, id, user_id from chats")
    first = await visitor.get("/people?begins=&cursor=")
    second = await visitor.get(next(one for one in first.links if "cursor=" in one))
    assert listed(first) + listed(second) == sorted(f"user-{n}" for n in range(1, 61))
    some = await visitor.get("/people?begins=user-5")
    assert listed(some) == ["user-5", *(f"user-5{n}" for n in range(10))]
    assert dict(some.form("/people").fields)["begins"] == "user-5"


async def test_what_is_stored_of_somebody_is_shown_without_texts_which_is_noted(
    service: Service, visitor: Visitor
) -> None:
    of_ann, of_ben = await two(service)
    people = await visitor.get("/people")
    assert listed(people) == [ANN, BEN]

    page = await visitor.get(next(one for one in people.links if one.endswith(ANN)))

    assert page.status == 200
    assert "<dt>Own chats</dt><dd>1</dd>" in page.html
    assert "<dt>Chats of others with words of the user</dt><dd>1</dd>" in page.html
    assert {"/chats/chat-1", "/chats/clone"} <= set(page.links)
    assert not [one for one in of_ann + of_ben if one in page.html + people.html]
    assert await noted(service) == ["user.show"]


async def test_an_erasure_asks_below_what_would_go_and_then_does_it(service: Service, visitor: Visitor) -> None:
    of_ann, of_ben = await two(service)
    page = await visitor.get(f"/people/{ANN}")
    assert "Precis deletes all of this." in page.text

    done = await visitor.get((await visitor.send(page.form(f"/people/{ANN}/erase"))).leads_to)

    assert listed(done) == []
    assert await rows(service.runtime, "select external_id from chats") == []
    assert not [one for one in of_ann + of_ben if one in page.html + done.html]
    assert await noted(service) == ["user.show", "user.erase"]
    again = await visitor.send(page.form(f"/people/{ANN}/erase"))
    assert again.status == 404
    assert "Nothing is stored of user" in again.text


async def test_who_may_only_look_sees_no_form_to_erase(service: Service) -> None:
    await two(service)
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create_key(connection, FIRST_TENANT, "operator:read", "people")
    async with visiting(service, key) as reader:
        page = await reader.get(f"/people/{ANN}")
        assert page.status == 200
        assert page.posts() == {"/sign-out"}
