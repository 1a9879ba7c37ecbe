"""Redis forgets everything, or is away: the database knows what is due."""

import asyncio

import httpx
import pytest

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
