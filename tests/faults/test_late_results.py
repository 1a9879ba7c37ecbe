"""Two workers that get the same chat, and a result that comes too late; `tests/service/test_fenced.py` has the rest."""

import asyncio
import signal
from contextlib import AsyncExitStack

import httpx
import pytest

from tests.faults.conftest import at_rest, checkpoints, is_served, thinking
from tests.faults.fleet import Fleet
from tests.service.talk import long_chat
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def outcomes(made: Fleet, chat: str) -> list[str]:
    query = "select outcome from runs join chats on chats.id = chat_id where external_id = $1 order by runs.id"
    return [row["outcome"] for row in await made.rows(query, chat)]


async def test_workers_that_are_all_woken_for_the_same_chats_read_each_boundary_once(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    talks = await asyncio.gather(*(long_chat(client, f"contended-{number}") for number in range(12)))
    for _ in range(3):
        await asyncio.gather(*(talk.ingest(leaf) for talk, leaf in talks))

    await at_rest(made, "contended-%")

    assert all([await is_served(*talk) for talk in talks])
    assert len(made.llm.requests) == await checkpoints(made, "contended-%") == 12


async def test_a_worker_that_was_frozen_comes_too_late_and_is_refused(made: Fleet, client: httpx.AsyncClient) -> None:
    first, *others = made.of("worker")
    async with thinking(made), AsyncExitStack() as stack:
        for other in others:
            await stack.enter_async_context(other.frozen())
        talk, leaf = await long_chat(client, "frozen")
        await made.llm.received(1)
        await stack.enter_async_context(first.frozen())
        for other in others:
            await other.signal(signal.SIGCONT)
        await made.llm.received(2)  # its lease is over, and another one has begun
        made.llm.thinking = None
    # All go on, and both answers come in.

    await until(lambda: _first_is_refused(made), every=0.1)
    await at_rest(made, "frozen")

    # On a busy machine a second lease may run out as well; what is stored, is stored once.
    assert (await outcomes(made, "frozen")).count("done") == 1
    assert await is_served(talk, leaf)
    assert await checkpoints(made, "frozen") == 1


async def _first_is_refused(made: Fleet) -> bool:
    return (await outcomes(made, "frozen"))[0] == "refused"
