"""What becomes of a result when the chat, or whose work it is, changed while the model was thinking."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from service.storage import checkpoints, work
from service.summarising.memory import Memory
from service.usecases.compress import Bench
from tests.fakes.scripted_llm import Hang
from tests.service.desk import Desk, running
from tests.service.desk import thinking as thinking_with
from tests.service.talk import check_tree, rows, run_sql
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


def thinking(desk: Desk, change: Callable[[], Coroutine[Any, Any, object]]) -> Bench:
    """A bench that reads all in one call, and with which `change` happens while the model thinks."""
    return thinking_with(desk, change, summariser_window=32_768)


async def meanwhile(desk: Desk, change: Callable[[], Coroutine[Any, Any, object]]) -> Any:
    """Runs a round in which `change` happens while the model thinks; returns the run."""
    await desk.compress(thinking(desk, change))
    return (await desk.runs())[-1]


async def test_work_handed_over_during_the_run_stays_due(desk: Desk) -> None:
    leaf = await desk.long_chat()
    grown = desk.talk.turns(14, leaf=leaf)

    run = await meanwhile(desk, lambda: desk.talk.hand_over(grown))

    assert run.outcome == "done"
    chat = await desk.chat()
    assert chat.due_at is not None
    assert chat.done_seq < chat.handed_seq
    await desk.drain()
    chat = await desk.chat()
    assert chat.done_seq == chat.handed_seq
    assert (await desk.made())[-1].covered_messages > 28


async def test_a_result_for_a_chat_that_was_edited_meanwhile_is_refused(desk: Desk) -> None:
    leaf = await desk.long_chat()

    async def edit() -> None:
        desk.talk.edit("u2", "edited in place")
        await desk.talk.hand_over(leaf)

    run = await meanwhile(desk, edit)

    assert (run.outcome, run.published) == ("refused", 0)
    assert await desk.made() == []
    assert (await desk.chat()).due_at is not None
    assert (await desk.chat()).attempts == 0, "an edit is no failure of the summariser"
    await desk.due_now()
    await desk.drain()
    assert "edited in place" in desk.llm.requests[1].text
    await check_tree(desk.service.runtime)


async def test_a_boundary_that_is_published_again_from_the_same_parent_is_another_version(desk: Desk) -> None:
    leaf = await desk.long_chat()
    await desk.drain()
    (first, *_) = await desk.made()
    await run_sql(desk.service.runtime, "update messages set checkpoint_id = null")
    await run_sql(desk.service.runtime, "update chats set due_at = now()")

    await desk.drain()

    versions = [one for one in await desk.made() if one.covered_digest == first.covered_digest]
    assert [(one.parent_id, one.version) for one in versions] == [(0, 1), (0, 2)]
    assert versions[0] == first
    assert (await desk.talk.ask(leaf))["checkpoint_id"] > versions[1].id
    await check_tree(desk.service.runtime)


async def test_an_edit_above_what_is_covered_does_not_refuse_the_result(desk: Desk) -> None:
    leaf = await desk.long_chat()

    async def edit() -> None:
        desk.talk.edit(leaf, "edited, in the tail")
        await desk.talk.hand_over(leaf)

    run = await meanwhile(desk, edit)

    assert (run.outcome, run.published) == ("done", 1)
    assert (await desk.talk.ask(leaf))["status"] in ("ready", "not_needed")
    await check_tree(desk.service.runtime)


@pytest.mark.parametrize("what", ["reset", "recompute"])
async def test_a_result_for_a_chat_that_was_reset_meanwhile_is_refused(desk: Desk, what: str) -> None:
    await desk.long_chat()

    async def reset() -> None:
        assert (await desk.service.as_operator.post(f"/v1/chats/chat-1/{what}")).is_success

    run = await meanwhile(desk, reset)

    assert (run.outcome, run.published) == ("refused", 0)
    assert await desk.made() == []
    await desk.due_now()
    await desk.drain()
    assert await desk.made()


@pytest.mark.parametrize("what", ["reset", "recompute"])
async def test_a_reset_before_the_old_summary_is_read_is_no_failure(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The plan goes on from a checkpoint that is dropped before its text is read."""
    leaf = await desk.long_chat()
    await desk.drain()
    await desk.talk.hand_over(desk.talk.turns(8, leaf=leaf))
    read = checkpoints.memory

    async def dropped_meanwhile(*arguments: Any) -> Memory | None:
        assert (await desk.service.as_operator.post(f"/v1/chats/chat-1/{what}")).is_success
        return await read(*arguments)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(checkpoints, "memory", dropped_meanwhile)
        await desk.compress()

    run = (await desk.runs())[-1]
    assert (run.outcome, run.published) == ("refused", 0)
    assert (await desk.chat()).last_error is None
    await desk.due_now()
    await desk.drain()
    assert await desk.made()


async def test_a_summary_that_is_dropped_while_it_is_looked_at_is_not_found(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.long_chat()
    await desk.drain()
    made = (await desk.made())[-1].id
    read = checkpoints.memory

    async def dropped_meanwhile(*arguments: Any) -> Memory | None:
        monkeypatch.undo()
        assert (await desk.service.as_operator.post("/v1/chats/chat-1/reset")).is_success
        return await read(*arguments)

    monkeypatch.setattr(checkpoints, "memory", dropped_meanwhile)

    assert (await desk.service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{made}")).status_code == 404


async def test_a_result_for_a_chat_that_was_deleted_meanwhile_vanishes(desk: Desk) -> None:
    await desk.long_chat()

    async def delete() -> None:
        assert (await desk.service.as_operator.delete("/v1/chats/chat-1")).is_success

    assert await desk.compress(thinking(desk, delete)) is None

    assert len(desk.llm.requests) == 1
    for table in ("chats", "messages", "checkpoints", "runs"):
        assert await rows(desk.service.runtime, f"select 1 from {table}") == [], table


async def test_a_late_result_is_fenced_when_another_worker_has_taken_over(desk: Desk) -> None:
    leaf = await desk.long_chat()
    chat = await desk.chat()

    async def taken_over() -> None:
        await run_sql(desk.service.runtime, "update chats set lease_until = now() - interval '1 second'")
        async with desk.service.runtime.database.engine.begin() as connection:
            assert await work.claim(connection, "another", None, desk.bench().settings)

    run = await meanwhile(desk, taken_over)

    assert (run.outcome, run.published) == ("refused", 0)
    assert await desk.made() == []
    chat = await desk.chat()
    assert chat.lease_token is not None  # the other one's lease was left alone
    assert chat.last_error is None
    await run_sql(desk.service.runtime, "update chats set lease_until = now() - interval '1 second'")
    await desk.drain()
    assert (await desk.talk.ask(leaf))["status"] == "ready"


async def test_two_workers_on_one_chat_make_one_call(desk: Desk) -> None:
    await desk.long_chat()
    bench = desk.bench(summariser_window=32_768)

    await asyncio.gather(*(desk.compress(bench) for _ in range(6)))

    assert len(desk.llm.requests) == 1
    assert len(await desk.made()) == 1
    assert len(await desk.runs()) == 1


async def test_the_lease_is_renewed_while_a_call_takes_long(desk: Desk) -> None:
    await desk.long_chat()
    desk.llm.default = Hang()

    async with running(desk.compress(desk.bench(lease=1))):
        await desk.llm.received(1)
        seen = {(await desk.chat()).lease_until}

        async def renewed_twice() -> bool:
            seen.add((await desk.chat()).lease_until)
            return len(seen) > 2

        await until(renewed_twice)
