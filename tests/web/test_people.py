"""The pages of people: who is listed, what of one is shown, and an erasure."""

import re

import pytest

from service.storage import keys
from service.text import characters
from tests.conftest import Service
from tests.service.talk import Talk, rows, run_sql
from tests.web.test_pages import ODD
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


async def key(service: Service, scope: keys.KeyScope, tenant: str = "default") -> str:
    async with service.runtime.database.engine.begin() as connection:
        return await keys.create_key(connection, tenant, scope, "people")


async def noted(service: Service) -> list[str]:
    """What was done to users; their ids are nowhere in it."""
    found = await rows(service.runtime, "select action, details::text as details from audit order by id")
    assert not any(ANN in one.details or BEN in one.details for one in found)
    return [one.action for one in found if one.action.startswith("user.")]


def facts(page: Page) -> dict[str, int]:
    return {what: int(count) for what, count in re.findall(r"<dt>([^<]+)</dt><dd>(\d+)</dd>", page.html)}


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
    await run_sql(
        service.runtime, "insert into chat_authors (tenant_id, chat_id, user_id) select 1, id, user_id from chats"
    )
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
    counts = facts(page)
    assert counts["Own chats"] == 1
    assert counts["Chats of others with words of the user"] == 1
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


async def test_who_may_only_look_sees_no_form_to_erase_and_sends_none(service: Service) -> None:
    await two(service)
    async with visiting(service, await key(service, "operator:read")) as reader:
        page = await reader.get(f"/people/{ANN}")
        assert page.status == 200
        assert page.posts() == {"/sign-out"}
        refused = await reader.post(f"/people/{ANN}/erase", page.form("/sign-out").fields)
        assert refused.status == 403
        assert "this key is read-only" in refused.text.lower()
    assert len(await rows(service.runtime, "select 1 from chats")) == 2


@pytest.mark.parametrize("user", ODD)
async def test_somebody_with_an_odd_id_has_a_page_and_an_erasure(service: Service, visitor: Visitor, user: str) -> None:
    await run_sql(
        service.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens) values (1, 'c', :user, 'm', 8192)",
        user=user,
    )
    await run_sql(
        service.runtime, "insert into chat_authors (tenant_id, chat_id, user_id) select 1, id, user_id from chats"
    )
    (link,) = [one for one in (await visitor.get("/people")).links if one.startswith("/people/")]
    assert (await visitor.get("/people", params={"begins": user})).links.count(link) == 1

    page = await visitor.get(link)

    assert " ".join(characters.escape_hidden(user).split()) in page.text
    assert "<script>alert" not in page.html
    assert "<img" not in page.html
    await visitor.send(page.form(f"{link}/erase"))
    assert not await rows(service.runtime, "select 1 from chats")
