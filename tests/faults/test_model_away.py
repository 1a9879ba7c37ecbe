"""The model is away. `test_clocks` has one that is slower than the lease."""

import asyncio

import httpx
import pytest

from tests.fakes.scripted_llm import Fail
from tests.faults.conftest import at_rest, checkpoints, is_served, thinking
from tests.faults.fleet import Fleet
from tests.faults.traffic import narrate
from tests.service.talk import long_chat
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_the_fleet_leaves_a_model_alone_that_is_away_and_catches_up_after_one_probe(
    made: Fleet, client: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    async def breaker(state: str, working: int) -> bool:
        status = (await operator.get("/v1/status")).json()
        states = [one["state"] for one in status["endpoints"]]  # none before the first call
        return bool(states == [state] and status["queue"]["working"] == working)

    async def all_served() -> bool:
        return all([await is_served(*talk) for talk in talks])

    made.llm.default = Fail(429)
    talks = await asyncio.gather(*(long_chat(client, f"without-model-{number}") for number in range(6)))
    await until(all_served, 60)  # by code, until the model has read
    await until(lambda: breaker("open", working=0), 60)
    assert await checkpoints(made, "without-model-%") == 0
    async with thinking(made):
        made.llm.requests.clear()
        await made.llm.received(1)
        assert await breaker("half-open", working=1)
        assert len(made.llm.requests) == 1
        made.llm.default = narrate

    await at_rest(made, "without-model-%")

    assert await breaker("closed", working=0)
    assert all([await is_served(*talk) for talk in talks])
    assert await checkpoints(made, "without-model-%") == 6
