"""The database goes away while a chat is worked on."""

from dataclasses import replace

import asyncpg
import pytest

from service.summarising.reading import Reading, Reply
from tests.service.harness import Harness

pytestmark = pytest.mark.asyncio(loop_scope="module")


class _Outage:
    """A summariser during whose call the database is restarted, so that the next statement fails."""

    name = "outage"

    async def summarise(self, _: Reading) -> Reply:
        raise asyncpg.CannotConnectNowError("the database system is starting up")


async def test_an_outage_of_the_database_is_no_failure_of_the_chat(harness: Harness) -> None:
    await harness.long_chat()
    worker_context = harness.worker_context(fallback_after=1, max_attempts=1)

    delay = await harness.compress(replace(worker_context, summariser=_Outage()))

    chat = await harness.chat()
    assert (delay, chat.attempts, chat.last_error, chat.lease_token) == (1, 0, None, None)
    assert [run.outcome for run in await harness.runs()] == ["released"]
    await harness.due_now()
    await harness.drain()
    assert {made.kind for made in await harness.made()} == {"llm"}
