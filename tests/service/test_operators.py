"""What operators see and change: list, show, summary, reset, delete; each change leaves an audit row."""

from typing import Any

import pytest

from tests.conftest import Service, drain
from tests.service.grown import summarised
from tests.service.talk import Json, Talk, check_tree, rows, run_sql, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def get(service: Service, where: str, **query: str | int) -> Any:
    response = await service.as_operator.get(f"/v1/chats{where}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


# Looking


async def test_chats_come_newest_first_page_by_page_each_once(service: Service) -> None:
    for number in range(7):
        talk = Talk(service.as_filter, f"chat-{number}")
        await talk.ingest(talk.turns(1))
    # Two chats of the same moment: the id decides between them.
    await run_sql(service.runtime, "update chats set updated_at = now() where external_id in ('chat-2', 'chat-3')")

    pages: list[list[str]] = []
    cursor = None
    while cursor or not pages:
        page = await get(service, "", limit=2, **({"cursor": cursor} if cursor else {}))
        pages.append([one["chat_id"] for one in page["chats"]])
        cursor = page["next"]

    assert pages == [["chat-3", "chat-2"], ["chat-6", "chat-5"], ["chat-4", "chat-1"], ["chat-0"]]


async def test_chats_are_listed_by_how_their_id_begins(service: Service) -> None:
    for chat in ("a-0", "b-1", "b-2"):
        talk = Talk(service.as_filter, chat=chat)
        await talk.ingest(talk.turns(1))

    async def listed(begins: str) -> list[str]:
        return [one["chat_id"] for one in (await get(service, "", begins=begins))["chats"]]

    assert await listed("b-") == ["b-2", "b-1"]
    assert await listed("%") == []


async def test_a_parameter_that_a_route_does_not_have_is_refused(service: Service) -> None:
    refused = await service.as_operator.get("/v1/chats?usr=ann")

    assert refused.status_code == 422
    assert "/query/usr: Extra inputs are not permitted" in refused.json()["detail"]


async def test_the_log_of_changes_is_read_by_chat_and_actor_page_by_page(service: Service) -> None:
    for chat in ("first", "second"):
        talk = Talk(service.as_filter, chat=chat)
        await talk.ingest(talk.turns(1))
        assert (await service.as_operator.post(f"/v1/jobs/{chat}/retry")).status_code == 204

    async def asked(query: str) -> Json:
        page: Json = (await service.as_operator.get(f"/v1/audit?{query}")).json()
        return page

    whole = (await asked(""))["changes"]
    assert [one["chat"] for one in whole] == ["second", "first"]
    assert [one["chat"] for one in (await asked("chat=first"))["changes"]] == ["first"]
    by = await service.as_operator.get("/v1/audit", params={"actor": whole[0]["actor"]})
    assert by.json()["changes"] == whole
    assert (await asked("actor=nobody"))["changes"] == []
    page = await asked("limit=1")
    assert [one["chat"] for one in (await asked(f"limit=1&cursor={page['next']}"))["changes"]] == ["first"]
    assert (await asked(f"limit=1&cursor={page['next']}"))["next"] is None


async def test_a_chat_shows_its_branches_checkpoints_and_runs(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk)
    sibling = talk.add("sibling", talk.rows[leaf]["parentId"], "assistant")
    await talk.ingest(sibling)

    shown = await get(service, "/chat-1")

    (made,) = shown["checkpoints"]
    assert (shown["chat"]["leaf_id"], shown["chat"]["messages"], shown["chat"]["working"]) == (sibling, 40, False)
    assert {one["leaf_id"]: one["checkpoint_id"] for one in shown["branches"]} == {
        leaf: made["id"],
        sibling: made["id"],
    }
    assert (made["parent_id"], made["kind"]) == (None, "extractive")
    last = shown["runs"][-1]
    assert (last["outcome"], last["calls"], last["published"]) == ("done", 0, 1)


# Changing


async def test_reset_to_a_checkpoint_keeps_it_and_those_it_grew_from(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk, least=4)
    made = [one["id"] for one in (await get(service, "/chat-1"))["checkpoints"]]

    reset = await service.as_operator.post("/v1/chats/chat-1/reset", json={"keep": made[1]})

    assert reset.json() == {"dropped": len(made) - 2}
    assert [one["id"] for one in (await get(service, "/chat-1"))["checkpoints"]] == made[:2]
    await check_tree(service.runtime)
    answer = await talk.ask(leaf)
    assert answer["checkpoint"] == made[1]

    leaf = talk.turns(1, leaf=leaf)
    await talk.ingest(leaf)
    await drain(service.runtime)
    newest = (await get(service, "/chat-1"))["checkpoints"][-1]
    assert newest["id"] > made[-1]
    assert newest["parent_id"] == made[1]


async def test_a_checkpoint_that_does_not_exist_is_not_found(service: Service, talk: Talk) -> None:
    await summarised(service, talk)
    other = Talk(service.as_filter, "other")
    await other.ingest(other.turns(20))
    await drain(service.runtime)
    elsewhere = (await get(service, "/other"))["checkpoints"][0]["id"]
    before = await tables(service.runtime)

    for number in (elsewhere, 10**9):
        assert (await service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{number}")).status_code == 404
        for method, where, body in (
            ("POST", "reset", {"keep": number}),
            ("PATCH", f"checkpoints/{number}", {"state": "Corrected."}),
        ):
            response = await service.as_operator.request(method, f"/v1/chats/chat-1/{where}", json=body)
            assert response.status_code == 404

    assert await tables(service.runtime) == before


@pytest.mark.parametrize("change", ["chats/chat-1/reset", "chats/chat-1/resume", "jobs/retry"])
async def test_a_change_that_makes_work_due_wakes_a_worker_after_its_commit(
    service: Service, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    talk = Talk(service.as_filter)
    await talk.ingest(talk.turns(1))
    await run_sql(service.runtime, "update chats set attempts = 100, due_at = null, dead_at = now()")
    found: list[Any] = []

    async def wake(*_: object) -> None:
        found.append(await rows(service.runtime, "select 1 from chats where due_at <= now()"))

    monkeypatch.setattr(service.runtime.queue, "wake", wake)
    response = await service.as_operator.post(f"/v1/{change}")

    assert response.is_success, response.text
    assert [len(one) for one in found] == [1]
