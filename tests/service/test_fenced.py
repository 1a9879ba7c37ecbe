"""What becomes of a result when the chat, or whose work it is, changed while the model was thinking, or on a crash."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from sqlalchemy import text

from service.storage import checkpoints, work
from service.summarising.memory import Memory
from service.usecases.compress import compress
from service.usecases.compress.claims import claim_chat
from service.usecases.compress.outcomes import Release, give_back
from tests.fakes.scripted_llm import Hang, Say
from tests.service.events import tell_edit
from tests.service.grown import by_the_model, in_one_call
from tests.service.harness import Harness, running, thinking, told
from tests.service.talk import check_tree, rows, run_sql
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "The secret word is mandragora."


async def meanwhile(harness: Harness, change: Callable[[], Coroutine[Any, Any, object]]) -> Any:
    """Runs a round of one call in which `change` happens while the model thinks; returns the run."""
    await harness.compress(thinking(harness, change, summariser_window=32_768))
    return (await harness.runs(by_code=False))[-1]


def fresh(harness: Harness, leaf: str) -> str:
    """A message that the first summary does not cover, and the next one will."""
    return str(harness.talk.path(leaf)[44]["id"])


async def edit(harness: Harness, leaf: str) -> None:
    harness.talk.edit(fresh(harness, leaf), SECRET)
    await harness.talk.ingest(leaf)


async def delete(harness: Harness, leaf: str) -> None:
    harness.talk.delete(fresh(harness, leaf))
    await tell_edit(harness.service, harness.talk)


async def reset(harness: Harness, _: str) -> None:
    assert (await harness.service.as_operator.post("/v1/chats/chat-1/reset")).is_success


async def correct(harness: Harness, _: str) -> None:
    (made,) = await harness.made()
    where = f"/v1/chats/chat-1/checkpoints/{made.id}"
    assert (await harness.service.as_operator.patch(where, json={"state": "Corrected."})).is_success


@pytest.mark.parametrize("change", [edit, delete, reset, correct])
async def test_a_result_for_a_chat_that_was_changed_meanwhile_is_refused(
    harness: Harness, change: Callable[[Harness, str], Coroutine[Any, Any, None]]
) -> None:
    leaf = harness.talk.turns(18, leaf=await in_one_call(harness))
    await harness.talk.ingest(leaf)
    (before,) = await harness.made()
    harness.llm.default = Say(f"## State\n- {SECRET}")

    run = await meanwhile(harness, lambda: change(harness, leaf))

    assert harness.llm.requests, "the model has read the chat"
    assert (run.outcome, run.published) == ("refused", 0)
    assert (await harness.chat()).attempts == 0, "no failure of the summariser"
    assert {one.kind for one in await harness.made() if one.id != before.id} <= {"corrected"}
    assert SECRET not in str([one.summary for one in await harness.made()])
    assert f"- {SECRET}" not in str([one.state for one in await harness.interim()])
    await harness.due_now()
    await harness.drain()
    await check_tree(harness.runtime)


async def test_a_reset_before_the_old_summary_is_read_is_no_failure(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan goes on from a checkpoint that is dropped before its text is read."""
    leaf = await by_the_model(harness)
    await harness.talk.ingest(harness.talk.turns(8, leaf=leaf))
    read = checkpoints.load_memory

    async def dropped_meanwhile(*arguments: Any) -> Memory | None:
        assert (await harness.service.as_operator.post("/v1/chats/chat-1/reset")).is_success
        return await read(*arguments)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(checkpoints, "load_memory", dropped_meanwhile)
        await compress(harness.worker_context())

    run = (await harness.runs())[-1]
    assert (run.outcome, run.published) == ("refused", 0)
    assert (await harness.chat()).last_error is None
    await harness.due_now()
    await harness.drain()
    assert await harness.made()


async def test_a_round_that_ends_waits_for_whoever_changes_the_chat(harness: Harness) -> None:
    """They forget the reasons of its runs, and so hold the chat first: neither may wait for the other."""
    await harness.talk.ingest(harness.talk.turns(20))
    claimed = await claim_chat(harness.worker_context())
    assert claimed

    async def waits() -> bool:
        return bool(await rows(harness.runtime, "select 1 from pg_locks where not granted"))

    async with harness.runtime.database.engine.begin() as connection:
        await connection.execute(text("select 1 from chats for update"))
        ending = asyncio.create_task(give_back(claimed, Release("released", "stopped", "stopped", 0)))
        await until(waits)
        await connection.execute(text("update runs set reason = null"))
    assert await ending == 0


@pytest.mark.parametrize("by_code", [True, False])
async def test_what_is_ingested_during_a_round_is_looked_at_again(harness: Harness, by_code: bool) -> None:
    leaf = await harness.long_chat()
    if not by_code:
        await harness.by_code()
    async with harness.runtime.database.engine.begin() as connection:
        lease = await work.claim_work(connection, "worker", None, 4)
    assert lease
    assert lease.by_code is by_code

    await harness.talk.ingest(harness.talk.turns(2, leaf=leaf))
    async with harness.runtime.database.engine.begin() as connection:
        if by_code:
            assert await work.renew_lease(connection, lease)
            again = await work.finish_code(connection, lease, again=False, model_next=False)
        else:
            await connection.execute(text("update chats set code_at = null"))
            again = await work.finish_model(connection, lease, again=False)

    assert again == 0
    assert (await harness.chat()).due_at is not None


async def test_a_late_result_is_fenced_when_another_worker_has_taken_over(harness: Harness) -> None:
    leaf = await harness.long_chat()
    chat = await harness.chat()

    async def taken_over() -> None:
        await run_sql(harness.runtime, "update chats set lease_until = now() - interval '1 second'")
        async with harness.runtime.database.engine.begin() as connection:
            assert await work.claim_work(connection, "another", None, 4)

    run = await meanwhile(harness, taken_over)

    assert (run.outcome, run.published) == ("refused", 0)
    assert await harness.made() == []
    chat = await harness.chat()
    assert chat.lease_token is not None  # the other one's lease was left alone
    assert chat.last_error is None
    await run_sql(harness.runtime, "update chats set lease_until = now() - interval '1 second'")
    await harness.drain()
    assert (await harness.talk.ask(leaf))["status"] == "ready"


async def test_a_crash_in_the_third_call_loses_that_call_only(harness: Harness) -> None:
    await harness.long_chat()
    harness.llm.script(Say("First."), Say("Second."), Hang())

    async with running(harness.compress()):
        await harness.llm.received(3)
        assert [told(made) for made in await harness.made()] == ["First.", "Second."]
    (run,) = await harness.runs(by_code=False)
    assert (run.outcome, run.calls, run.published) == ("released", 2, 2)

    await harness.drain()

    assert "Second." in harness.llm.requests[3].text


async def test_the_lease_is_renewed_while_a_call_takes_long(harness: Harness) -> None:
    await harness.long_chat()
    harness.llm.default = Hang()

    async with running(harness.compress(harness.worker_context(lease=1))):
        await harness.llm.received(1)
        seen = {(await harness.chat()).lease_until}

        async def renewed_twice() -> bool:
            seen.add((await harness.chat()).lease_until)
            return len(seen) > 2

        await until(renewed_twice)
