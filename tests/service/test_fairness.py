"""Whose turn it is: tenants, chats and workers share the summarisers, and no chat is worked on twice."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from service.storage import keys, work
from service.storage.work import Lease
from service.usecases.compress import WorkerContext, rounds
from tests.service.harness import Harness, long_chats
from tests.service.talk import row, rows, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Queue:
    """The due work of several tenants. Chats are named `<tenant>-<number>`, number 0 is due for longest."""

    harness: Harness

    async def put(self, tenant: str, count: int = 1, *, waited: float = 1000, **columns: str) -> None:
        """So many due chats, the first for `waited` seconds and each other for one less; `columns` are SQL terms."""
        runtime = self.harness.runtime
        async with runtime.database.engine.begin() as connection:
            await keys.create_key(connection, tenant, "filter", "test")
        values = {"due_at": f"now() - make_interval(secs => {waited} - number)"} | columns
        await run_sql(
            runtime,
            f"insert into chats (tenant_id, external_id, user_id, model, window_tokens, {', '.join(values)})"
            f" select id, '{tenant}-' || number, 'user', 'model', 8192, {', '.join(values.values())}"
            f" from tenants, generate_series(0, {count - 1}) number where name = '{tenant}'",
        )

    async def claim(self, worker_context: WorkerContext | None = None) -> Lease | None:
        """What a worker with this context (the built-in summariser by default) gets to do next."""
        worker_context = worker_context or self.harness.runtime.worker_context
        async with worker_context.engine.begin() as connection:
            return await work.claim_work(
                connection, "worker", worker_context.endpoint, worker_context.settings.summariser_calls
            )

    async def name(self, lease: Lease | None) -> str | None:
        """Which chat that is."""
        if lease is None:
            return None
        query = "select external_id from chats where tenant_id = :tenant and id = :id"
        found: str = (await row(self.harness.runtime, query, tenant=lease.chat.tenant, id=lease.chat.id))[0]
        return found

    async def next(self, worker_context: WorkerContext | None = None) -> str | None:
        """The chat that is claimed now."""
        return await self.name(await self.claim(worker_context))


@pytest_asyncio.fixture(loop_scope="module")
async def queue(harness: Harness) -> AsyncIterator[Queue]:
    await run_sql(harness.runtime, "delete from tenants where name <> 'default'")
    yield Queue(harness)


async def test_the_tenant_with_the_least_work_under_way_is_next(queue: Queue) -> None:
    await queue.put("busy", 6, waited=5000)
    assert [await queue.next() for _ in range(3)] == ["busy-0", "busy-1", "busy-2"]
    await queue.put("late", 4, waited=10)

    order = [await queue.next() for _ in range(7)]

    # Three for three; from there on in turns.
    assert order == ["late-0", "late-1", "late-2", "busy-3", "late-3", "busy-4", "busy-5"]


async def test_calls_that_hang_take_no_turn_of_codes_work(queue: Queue) -> None:
    await queue.put("hangs", 3, waited=5000)
    worker_context = queue.harness.worker_context(summariser_calls=3)
    assert [await queue.next(worker_context) for _ in range(4)] == ["hangs-0", "hangs-1", "hangs-2", None]
    await run_sql(queue.harness.runtime, "update chats set code_at = now()")
    await queue.put("other", 3, waited=10, code_at="now()")

    leases = [await queue.claim(worker_context) for _ in range(7)]

    names = [(await queue.name(lease) or "")[:5] for lease in leases if lease]
    assert names == ["other", "hangs", "other", "hangs", "other", "hangs"]
    assert all(lease.by_code for lease in leases if lease)


async def test_of_a_tenant_codes_work_goes_before_the_models_and_one_chat_may_have_both(queue: Queue) -> None:
    await queue.put("late", 1, waited=5000)
    await queue.put("new", 1, waited=10, code_at="now()")
    await run_sql(queue.harness.runtime, "update chats set tenant_id = (select min(id) from tenants)")
    worker_context = queue.harness.worker_context()

    first, second = await queue.claim(worker_context), await queue.claim(worker_context)

    assert first
    assert second
    assert (await queue.name(first), first.by_code, first.ends_work) == ("new-0", True, False)
    assert (await queue.name(second), second.by_code, second.ends_work) == ("late-0", False, True)
    assert await queue.claim(worker_context) is None, "the model's work waits for code's"
    async with queue.harness.runtime.database.engine.begin() as connection:
        await work.finish_code(connection, first, again=False, model_next=True)
    third = await queue.claim(worker_context)
    assert third
    assert (await queue.name(third), third.by_code) == ("new-0", False)
    await run_sql(queue.harness.runtime, "update chats set code_at = now() where external_id = 'new-0'")
    fourth = await queue.claim(worker_context)
    assert fourth
    assert (await queue.name(fourth), fourth.by_code) == ("new-0", True)


async def test_nothing_is_claimed_that_is_not_due_or_is_worked_on_or_is_dead(queue: Queue) -> None:
    worker_context = queue.harness.worker_context(summariser_calls=2)
    was_leased: dict[str, Any] = {
        "lease_until": "now() - interval '1 second'",
        "lease_token": "gen_random_uuid()",
        "lease_endpoint": f"'{worker_context.endpoint}'",
    }
    await queue.put("nothing", 2, due_at="null")
    await queue.put("over", 2, due_at="null", **was_leased)  # they take no place of an endpoint
    await queue.put("later", 2, due_at="now() + interval '1 minute'")
    await queue.put("leased", 2, lease_until="now() + interval '1 minute'", lease_token="gen_random_uuid()")
    await queue.put("dead", 2, due_at="null", dead_at="now()")
    await queue.put("expired", 1, **was_leased)

    assert [await queue.next(worker_context) for _ in range(2)] == ["expired-0", None]


async def calls(harness: Harness) -> dict[str, int]:
    found = await rows(
        harness.runtime,
        "select external_id, sum(calls) from chats c join runs r on r.chat_id = c.id where not by_code group by 1",
    )
    return {name: int(count) for name, count in found}


async def test_a_huge_chat_goes_back_to_the_end_of_the_queue_between_two_calls_when_others_wait(
    harness: Harness,
) -> None:
    await long_chats(harness, 1, turns=60, prefix="huge", for_code=True)
    await long_chats(harness, 2, turns=12, prefix="small", for_code=True)
    worker_context = harness.worker_context(summariser_window=16_384)  # one call for a small chat

    seen = []
    for _ in range(4):
        await harness.compress(worker_context)
        seen.append(await calls(harness))

    assert seen[0] == {"huge-0": 1}
    small = {name: count for name, count in seen[2].items() if name != "huge-0"}
    assert seen[2]["huge-0"] == 1
    assert set(small) == {"small-0", "small-1"}
    assert seen[3]["huge-0"] > 2  # alone again: goes on to its end
    assert (await row(harness.runtime, "select count(*) from chats where due_at is not null"))[0] == 0


async def test_a_round_ends_after_some_calls_and_the_next_one_goes_on(harness: Harness) -> None:
    await harness.long_chat(40)
    worker_context = harness.worker_context()

    assert await harness.compress(worker_context) == 0

    assert len(harness.llm.requests) == len(await harness.made()) == rounds.CALLS
    await harness.drain(worker_context)
    assert len(harness.llm.requests) == len(await harness.made()) > rounds.CALLS


async def test_a_chat_for_which_the_built_in_summariser_stands_in_takes_no_place(queue: Queue) -> None:
    await queue.put("failing", 2, waited=5000, attempts="9")
    await queue.put("fine", 2, waited=10)
    worker_context = queue.harness.worker_context(summariser_calls=1)

    leases = [await queue.claim(worker_context) for _ in range(4)]

    assert [(await queue.name(lease), lease.fallback) for lease in leases if lease] == [
        ("failing-0", True),
        ("fine-0", False),
        ("failing-1", True),  # although the bound is reached
    ]
    assert leases[3] is None


@pytest.mark.parametrize("tenants", [1, 24])
async def test_claims_at_the_same_time_give_every_chat_to_one_worker(queue: Queue, tenants: int) -> None:
    """And none goes away empty while there is a chat: a wake-up message that finds nothing is lost."""
    for number in range(tenants):
        await queue.put(f"t{number}", 24 // tenants)

    names = await asyncio.gather(*(queue.next() for _ in range(28)))

    claimed = [name for name in names if name]
    assert len(claimed) == len(set(claimed)) == 24


async def test_a_chat_that_is_stored_is_passed_by_and_one_that_is_counted_is_claimed(queue: Queue) -> None:
    """A row that refers to a chat locks it while it is written, as counting does every few seconds."""
    await queue.put("a", 2, waited=5000)
    await queue.put("b", 1)

    async with queue.harness.runtime.database.engine.begin() as connection:
        await connection.exec_driver_sql("select 1 from chats where external_id = 'a-0' for update")
        await connection.exec_driver_sql("select 1 from chats where external_id <> 'a-0' for key share")
        assert [await queue.next() for _ in range(3)] == ["a-1", "b-0", None]

    assert await queue.next() == "a-0"
