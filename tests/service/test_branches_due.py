"""Each branch of a chat whose ingest was answered with `due: true` gets its summary, whoever was there last."""

from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import checkpoints
from service.storage.checkpoints import NewCheckpoint
from service.storage.work import Lease
from tests.service.harness import Harness
from tests.service.talk import check_tree, host_ids, row, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

WIDE: dict[str, Any] = {"summariser_window": 32_768}


async def branches(harness: Harness, count: int, turns: int = 20) -> list[str]:
    """So many branches that share only the first question, all due before a worker came; their leaves."""
    root = harness.talk.add("root", None)
    leaves = [harness.talk.turns(turns, leaf=root, prefix=f"b{number}-") for number in range(count)]
    for leaf in leaves:
        assert await harness.talk.ingest(leaf)
    return leaves


async def due(harness: Harness) -> list[str]:
    """The leaves that are due, newest first, as the host calls them."""
    told = await host_ids(harness.runtime)
    return [told[leaf] for leaf in (await harness.chat()).due_leaves]


async def unserved(harness: Harness, leaves: list[str]) -> list[str]:
    return [leaf for leaf in leaves if (await harness.talk.ask(leaf))["status"] != "ready"]


@pytest.mark.parametrize("who", ["a model", "code"])
async def test_each_branch_that_is_due_gets_its_summary_without_another_turn_of_it(harness: Harness, who: str) -> None:
    leaves = await branches(harness, 4)
    worker_context = harness.worker_context(**WIDE) if who == "a model" else harness.runtime.worker_context

    await harness.drain(worker_context)

    assert await unserved(harness, leaves) == []
    assert await harness.interim() == []
    assert len(await harness.made()) >= 4
    await check_tree(harness.runtime)


async def test_a_short_branch_does_not_take_the_work_of_the_long_one_that_was_due(harness: Harness) -> None:
    leaf = await harness.long_chat()
    first = harness.talk.path(leaf)[0]["id"]
    short = harness.talk.turns(1, leaf=first, prefix="short-")
    assert await harness.talk.ingest(short) is False

    await harness.drain()

    assert await unserved(harness, [leaf]) == []


async def test_a_chat_with_many_branches_gives_way_between_two_of_them_and_ends_all_the_same(harness: Harness) -> None:
    leaves = await branches(harness, 3)
    await run_sql(
        harness.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, due_at)"
        " select id, 'other', 'user', 'model', 8192, now() + interval '1 hour' from tenants where name = 'default'",
    )
    other = "update chats set due_at = now() - interval '{}' where external_id = 'other'"
    made = []
    for _ in range(3):
        # It stands behind this one, so that this one is taken, and gives way.
        await run_sql(
            harness.runtime, "update chats set due_at = now() - interval '2 hours' where external_id <> 'other'"
        )
        await run_sql(harness.runtime, other.format("1 hour"))
        await harness.compress(harness.worker_context(**WIDE))
        made.append(len(await harness.made()))

    assert made == [1, 2, 3]
    assert await unserved(harness, leaves) == []
    this = await row(harness.runtime, "select due_at, due_leaves from chats where external_id = 'chat-1'")
    assert (this.due_at, this.due_leaves) == (None, [])


async def test_a_branch_that_goes_on_is_due_once(harness: Harness) -> None:
    leaf = await harness.long_chat()
    for after in (None, leaf):
        leaf = harness.talk.turns(1, leaf=leaf)
        assert await harness.talk.ingest(leaf, after)

    assert await due(harness) == [leaf]


async def test_what_is_remembered_of_a_chat_is_bounded(harness: Harness) -> None:
    leaf = await harness.long_chat()
    await run_sql(
        harness.runtime, "update chats set due_leaves = array(select 'gone-' || n from generate_series(1, 300) n)"
    )

    await harness.talk.ingest(harness.talk.turns(1, leaf=leaf))

    due = (await harness.chat()).due_leaves
    assert (len(due), due[1], due[-1]) == (256, "gone-1", "gone-255")
    await harness.drain()
    assert (await harness.chat()).due_leaves == []


async def test_a_branch_that_became_due_during_a_round_is_not_forgotten(harness: Harness) -> None:
    (leaf,) = await branches(harness, 1)
    late = harness.talk.turns(20, leaf="root", prefix="late-")
    later = harness.talk.turns(20, leaf="root", prefix="later-")

    async def ingest(_: Any) -> None:
        harness.llm.thinking = None
        await harness.talk.ingest(late)
        await harness.talk.ingest(later)

    harness.llm.thinking = ingest
    await harness.compress(harness.worker_context(**WIDE))
    assert sorted(await due(harness)) == sorted([late, later])
    await harness.drain(harness.worker_context(**WIDE))

    assert await unserved(harness, [leaf, late, later]) == []
    assert await harness.interim() == []


async def test_the_branch_on_which_a_user_goes_on_is_next_however_many_are_due(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = await branches(harness, 3)
    late = harness.talk.turns(20, leaf="root", prefix="late-")
    publish = checkpoints.publish_checkpoint

    async def published(connection: AsyncConnection, lease: Lease, fresh: NewCheckpoint) -> int | None:
        if late not in await due(harness):
            await harness.talk.ingest(late)
        return await publish(connection, lease, fresh)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "publish_checkpoint", published)
        await harness.compress(harness.runtime.worker_context)
    assert await unserved(harness, leaves) == leaves[:2]
    await harness.compress(harness.runtime.worker_context)

    assert await unserved(harness, [*leaves, late]) == []


async def test_a_branch_without_texts_keeps_no_other_from_its_summary(harness: Harness) -> None:
    first, second = await branches(harness, 2)
    await run_sql(harness.runtime, "update messages set body = null where host_id like 'b0-%'")

    await harness.drain(harness.worker_context(**WIDE))

    assert await due(harness) == []
    assert await unserved(harness, [first, second]) == [first]
    await harness.service.stored()
    await harness.drain(harness.worker_context(**WIDE))
    assert await unserved(harness, [first, second]) == [], "its request has brought them"
