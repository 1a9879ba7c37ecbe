"""What a look-up may see: the covered part of the branch that is asked about, for who may see it, and nothing else."""

import pytest

from tests.conftest import Service
from tests.service.grown import summarised
from tests.service.recalling import recall
from tests.service.talk import Json, Talk, prose, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


def state(talk: Talk, leaf: str, **more: object) -> Json:
    """What the service notes of a turn below `leaf`; nothing is asked, and so nothing stored."""
    noted = {"chat": talk.chat, "user": talk.user, "model": talk.model, "window": 8192}
    return noted | {"above": talk.ids(leaf)[-1]} | more


async def seen(talk: Talk, leaf: str, **more: object) -> list[str]:
    """The texts that can be read, the first message's first; `more` is of the state."""
    found: list[str] = []
    while True:
        asked = state(talk, leaf, **more)
        answer = await recall(talk, asked, ref=f"M{len(found) + 1}", max_tokens=8000)
        if answer["status"] != "found":
            return found
        found.append(answer["content"])


def texts(talk: Talk, leaf: str, count: int) -> list[str]:
    return [str(one["content"]) for one in talk.path(leaf)[:count]]


async def covered(service: Service) -> list[tuple[int, int]]:
    """Of each checkpoint its id, and how many messages it covers."""
    shown = (await service.as_operator.get("/v1/chats/chat-1")).json()["checkpoints"]
    return [(one["id"], one["covered_messages"]) for one in shown]


async def test_the_part_that_the_served_checkpoint_covers_is_seen_and_no_message_more(
    service: Service, talk: Talk
) -> None:
    leaf = await summarised(service, talk, least=3)
    (first, shallow), *_, (last, deepest) = await covered(service)
    below = talk.path(leaf)[deepest]["id"]

    assert await seen(talk, leaf, served=last) == texts(talk, leaf, deepest)
    assert await seen(talk, leaf, served=first) == texts(talk, leaf, shallow)
    assert await seen(talk, leaf, served=10**9) == await seen(talk, leaf) == []
    assert await seen(talk, leaf, cut="left out") == texts(talk, leaf, len(talk.path(leaf)))
    searched = await recall(talk, state(talk, leaf, served=last), query=f"Reading {below}-0")
    assert f"Reading {below}-0" not in searched["text"]


async def test_of_another_branch_nothing_is_seen_below_where_it_goes_off(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk, least=3)
    (first, shallow), *_, (deep, _) = await covered(service)
    branch = talk.turns(1, leaf=talk.path(leaf)[shallow + 1]["id"], prefix="branch-")
    await talk.ingest(branch)

    assert await seen(talk, branch, served=first) == texts(talk, leaf, shallow)
    assert await seen(talk, branch, served=deep) == []
    assert await seen(talk, branch, served=deep, cut="left out") == texts(talk, branch, len(talk.path(branch)))
    elsewhere = prose(30, talk.path(leaf)[shallow + 4]["id"]).splitlines()[0]
    assert elsewhere not in (await recall(talk, state(talk, branch, served=first), query=elsewhere))["text"]
    early = talk.path(leaf)[shallow - 2]["id"]
    assert await seen(talk, early, served=first) == []


async def test_what_was_edited_and_what_stood_below_it_is_not_seen(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk, least=3)
    before = Talk(talk.client, rows={name: dict(row) for name, row in talk.rows.items()})
    (first, shallow), *_, (deep, _) = await covered(service)
    talk.edit(talk.path(leaf)[shallow]["id"], "edited in place")

    await talk.ingest(leaf)

    for served in (first, deep):
        expected = texts(before, leaf, shallow) if served == first else []
        assert await seen(talk, leaf, served=served) == await seen(before, leaf, served=served) == expected


async def test_nothing_is_seen_of_another_chat_nor_of_one_that_has_expired(service: Service, talk: Talk) -> None:
    leaf = await summarised(service, talk, least=3)
    *_, (last, _) = await covered(service)
    fork = Talk(talk.client, "fork", dict(talk.rows))

    assert await seen(talk, leaf, served=last, user="somebody else") == []
    assert await seen(fork, leaf, served=last) == [], "a fork is stored before it is served"
    await run_sql(service.runtime, "update chats set expires_at = now()")
    assert await seen(talk, leaf, served=last) == []
