"""What a look-up may see: the covered part of the branch that is asked about, for who may see it, and nothing else."""

import pytest

from tests.conftest import Service
from tests.service.grown import summarised
from tests.service.talk import Json, Talk, prose, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def recall(talk: Talk, leaf: str, **more: object) -> Json:
    path = [(identity, digest) for identity, _, digest in talk.chain(leaf)][::-1]
    body = {"user_id": talk.user, "path": path[:64]} | more
    response = await talk.client.post(f"/v1/chats/{talk.chat}/recall", json=body)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


async def seen(talk: Talk, leaf: str, **more: object) -> list[str]:
    """The texts that can be read, the first message's first."""
    found: list[str] = []
    while True:
        answer = await recall(talk, leaf, ref=f"M{len(found) + 1}", max_tokens=8000, **more)
        if answer["status"] != "found":
            return found
        found.append(answer["content"])


def texts(talk: Talk, leaf: str, count: int) -> list[str]:
    return [str(one["content"]) for one in talk.path(leaf)[:count]]


async def covered(service: Service) -> list[tuple[int, int]]:
    """Of each checkpoint its id, and how many messages it covers."""
    shown = (await service.as_operator.get("/v1/chats/chat-1")).json()["checkpoints"]
    return [(one["id"], one["covered_messages"]) for one in shown]


@pytest.fixture
def talk(service: Service) -> Talk:
    return Talk(service.as_filter, window=8192)


async def test_the_part_that_the_served_checkpoint_covers_is_seen_and_no_message_more(
    service: Service, talk: Talk
) -> None:
    leaf = await summarised(service, talk, least=3)
    (first, shallow), *_, (_, deepest) = await covered(service)
    below = talk.path(leaf)[deepest]["id"]

    assert await seen(talk, leaf) == texts(talk, leaf, deepest)
    assert await seen(talk, leaf, checkpoint_id=10**9) == texts(talk, leaf, deepest)
    assert await seen(talk, leaf, checkpoint_id=first) == texts(talk, leaf, shallow)
    assert await seen(talk, leaf, whole=True) == texts(talk, leaf, len(talk.path(leaf)))
    assert f"Reading {below}-0" not in (await recall(talk, leaf, query=f"Reading {below}-0"))["text"]


async def test_of_another_branch_nothing_is_seen_below_where_it_goes_off(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk, least=3)
    (_, shallow), *_, (deep, _) = await covered(service)
    branch = talk.turns(1, leaf=talk.path(leaf)[shallow + 1]["id"], prefix="branch-")
    await talk.ingest(branch)

    for checkpoint in (None, deep):
        assert await seen(talk, branch, checkpoint_id=checkpoint) == texts(talk, leaf, shallow)
    elsewhere = prose(30, talk.path(leaf)[shallow + 4]["id"]).splitlines()[0]
    assert elsewhere not in (await recall(talk, branch, query=elsewhere))["text"]
    early = talk.path(leaf)[shallow - 2]["id"]
    assert await seen(talk, early) == []


async def test_what_was_edited_and_what_stood_below_it_is_not_seen(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk, least=3)
    before = Talk(talk.client, rows={name: dict(row) for name, row in talk.rows.items()})
    (_, shallow), *_ = await covered(service)
    talk.edit(talk.path(leaf)[shallow]["id"], "edited in place")

    assert await seen(talk, leaf) == texts(before, leaf, shallow), "as nobody has told the service"
    await talk.ingest(leaf)
    assert await seen(before, leaf) == await seen(talk, leaf) == texts(before, leaf, shallow)


async def test_a_fork_that_is_not_stored_sees_what_its_users_chats_have_and_nobody_elses(
    service: Service, talk: Talk
) -> None:
    leaf = await summarised(service, talk, least=3)
    (first, shallow), *_, (_, deepest) = await covered(service)
    fork = Talk(talk.client, "fork", dict(talk.rows))

    assert await seen(fork, leaf) == texts(talk, leaf, deepest)
    assert await seen(fork, leaf, checkpoint_id=first) == texts(talk, leaf, shallow)
    assert await seen(fork, leaf, user_id="somebody else") == []
    await run_sql(service.runtime, "update chats set expires_at = now() + interval '1 hour'")
    assert await seen(fork, leaf) == []
    await run_sql(service.runtime, "update chats set expires_at = now()")
    assert await seen(talk, leaf) == []
