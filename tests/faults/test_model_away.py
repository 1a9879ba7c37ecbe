"""The model is away, or slower than the lease."""

import asyncio

import httpx
import pytest

from tests.fakes.scripted_llm import Disconnect
from tests.faults.conftest import at_rest, checkpoints, is_served, long_chat, thinking
from tests.faults.fleet import Fleet
from tests.faults.traffic import narrate
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_when_the_model_is_back_all_chats_catch_up(made: Fleet, client: httpx.AsyncClient) -> None:
    made.llm.default = Disconnect()
    talks = await asyncio.gather(*(long_chat(client, f"without-model-{number}") for number in range(6)))
    await made.llm.received(3)
    assert [(await talk.ask(leaf))["status"] for talk, leaf in talks] == ["pending"] * 6

    made.llm.default = narrate
    await at_rest(made, "without-model-%")

    assert all([await is_served(*talk) for talk in talks])
    assert await checkpoints(made, "without-model-%") == 6


async def test_a_call_that_takes_longer_than_the_lease_is_made_once(made: Fleet, client: httpx.AsyncClient) -> None:
    leases = set()

    async def renewed() -> bool:
        (row,) = await made.rows("select lease_until from chats where external_id = 'slow'")
        leases.add(row["lease_until"])
        return bool((max(leases) - min(leases)).total_seconds() > float(made.environment["PRECIS_LEASE"]))

    async with thinking(made):
        talk, leaf = await long_chat(client, "slow")
        await made.llm.received(1)
        await until(renewed)

    await at_rest(made, "slow")

    assert await is_served(talk, leaf)
    assert len(made.llm.requests) == await checkpoints(made, "slow") == 1
