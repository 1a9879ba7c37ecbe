"""Workers whose clocks differ by two minutes: the time of the database decides."""

import asyncio
import sys
from contextlib import AsyncExitStack

import httpx
import pytest

from tests.faults.conftest import at_rest, checkpoints, is_served, thinking
from tests.faults.fleet import CONSTANTS, Fleet
from tests.service.talk import long_chat
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_workers_whose_clocks_are_wrong_do_the_work_once_and_respect_each_others_leases(
    made: Fleet, client: httpx.AsyncClient
) -> None:
    lease = CONSTANTS["lease"]
    seen: dict[int, set[float]] = {}

    async def renewed() -> bool:
        # Not now(), which is when this read began: a lease may have been renewed since.
        query = """
            select id, extract(epoch from lease_until) as until,
                extract(epoch from lease_until - clock_timestamp()) as left
            from chats where external_id like 'skewed-%' and lease_until is not null
        """
        for row in await made.rows(query):
            assert row["left"] <= lease, "a lease ends by the database's clock"
            seen.setdefault(row["id"], set()).add(float(row["until"]))
        return len(seen) == 4 and all(max(ends) - min(ends) > lease for ends in seen.values())

    async with AsyncExitStack() as stack:
        for usual in made.of("worker"):
            await stack.enter_async_context(usual.frozen())
        runner = (sys.executable, "-m", "tests.faults.skewed")
        await stack.enter_async_context(
            made.kept(made.worker("ahead", *runner, "+60"), made.worker("behind", *runner, "-60"))
        )
        async with thinking(made):
            talks = await asyncio.gather(*(long_chat(client, f"skewed-{number}") for number in range(4)))
            await until(renewed)
        await at_rest(made, "skewed-%")

    assert all([await is_served(*talk) for talk in talks])
    assert len(made.llm.requests) == await checkpoints(made, "skewed-%") == 4
