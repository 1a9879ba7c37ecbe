"""Precis as a fleet: PostgreSQL and Valkey by URL, an API and a worker as processes of their own."""

import shutil
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.e2e.precis import keep_facts
from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import facts, view
from tests.fakes.scripted_llm import scripted_llm
from tests.faults.fleet import Fleet, fleet, reachable_folder
from tests.waiting import until


@pytest_asyncio.fixture(loop_scope="session")
async def running_fleet() -> AsyncIterator[Fleet]:
    folder = reachable_folder("precis-e2e-fleet-")
    async with scripted_llm() as llm, fleet(folder, llm, apis=1, workers=1) as made:
        llm.default = keep_facts
        yield made
    shutil.rmtree(folder, ignore_errors=True)


async def test_a_chat_is_compressed_by_a_fleet(rig: Rig, tab: Tab, running_fleet: Fleet) -> None:
    port, key = running_fleet.ports[0], running_fleet.keys["filter"]
    await rig.valves(service_url=f"http://127.0.0.1:{port}", api_key=key)
    await rig.open_story(tab, 22)
    await tab.send(question())

    async def summarised() -> bool:
        query = "select 1 from checkpoints join chats on chats.id = checkpoints.chat_id where external_id = $1"
        done = await running_fleet.converged(str(tab.chat_id))
        return done and bool(await running_fleet.rows(query, tab.chat_id))

    await until(summarised, 60)
    await tab.send(asked := question())

    seen = view(rig.model.received[-1])
    assert facts(seen.summary)
    assert facts(seen.summary) == facts(seen.hidden)
    assert seen.tail[-1]["content"] == asked
