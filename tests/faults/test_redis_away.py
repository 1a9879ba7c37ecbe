"""Redis forgets everything, or is away: the database knows what is due."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import httpx
import pytest

from service.embedded.port import HOST, free_port
from tests.faults.conftest import at_rest, checkpoints, is_served, thinking
from tests.faults.fleet import Fleet
from tests.service.talk import long_chat

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_flushing_redis_in_the_middle_of_work_loses_and_doubles_nothing(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    async with thinking(made):
        talks = [await long_chat(client, f"flushed-{number}") for number in range(5)]
        await made.llm.received(1)
        await made.flush()
        talks += [await long_chat(client, f"flushed-{number}") for number in range(5, 10)]
        await made.flush()

    await at_rest(made, "flushed-%")

    assert all([await is_served(*talk) for talk in talks])
    assert len(made.llm.requests) == await checkpoints(made, "flushed-%") == 10


async def test_while_redis_is_away_hand_overs_are_acknowledged_and_worked_on_later(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    before = [member.starts for member in made.of("api") + made.of("worker")]
    async with made.redis.away():
        state = await client.get("/readyz")
        assert (state.status_code, state.json()["status"]) == (200, "ok"), "requests are answered"
        assert state.json()["queue"].startswith("no answer")
        talks = await asyncio.gather(*(long_chat(client, f"without-redis-{number}") for number in range(8)))
        assert [(await talk.ask(leaf))["known"] for talk, leaf in talks] == [leaf for _, leaf in talks]

    await at_rest(made, "without-redis-%")

    assert all([await is_served(*talk) for talk in talks])
    assert await checkpoints(made, "without-redis-%") == 8
    assert [member.starts for member in made.of("api") + made.of("worker")] == before, "nobody had to start again"


async def test_processes_that_start_while_redis_is_away_answer_and_work_once_it_is_back(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    talk, leaf = await long_chat(client, "started-before")
    await at_rest(made, "started-before")
    port = free_port()
    async with AsyncExitStack() as stack:
        for usual in made.of("worker"):
            await stack.enter_async_context(usual.frozen())
        async with made.redis.away():
            await stack.enter_async_context(made.kept(made.api("late-api", port), made.worker("late-worker")))
            late = await stack.enter_async_context(
                httpx.AsyncClient(base_url=f"http://{HOST}:{port}", headers=client.headers, timeout=client.timeout)
            )
            assert await is_served(replace(talk, client=late), leaf)
            other, tip = await long_chat(late, "started-late")
        await at_rest(made, "started-late")
        assert await is_served(other, tip)
