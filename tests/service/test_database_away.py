"""The database goes away while a model thinks: the work is left to its lease, and done again when that is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from service.storage.database import connect
from tests.fakes.scripted_llm import Fail, Request, Say
from tests.service.harness import Harness
from tests.service.talk import row, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def away(harness: Harness) -> AsyncIterator[None]:
    """For an engine whose connections are named `cut off`: they are ended, and there are no new ones."""
    really = asyncpg.connect

    async def connect(url: str, *, server_settings: dict[str, str], **more: Any) -> Any:
        if server_settings["application_name"] == "cut off":
            raise ConnectionRefusedError("nobody listens")
        return await really(url, server_settings=server_settings, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncpg, "connect", connect)
        await run_sql(
            harness.runtime, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'cut off'"
        )
        yield


@pytest.mark.parametrize("end", ["answers", "fails", "is not waited for"])
async def test_work_that_cannot_be_given_back_is_left_to_its_lease(harness: Harness, end: str) -> None:
    leaf = await harness.long_chat()
    usual, go = harness.worker_context(summariser_window=32_768), asyncio.Event()

    async def think(_: Request) -> None:
        await go.wait()

    harness.llm.thinking, harness.llm.default = think, Fail(401) if end == "fails" else Say("Too late.")
    async with connect(harness.runtime.urls.database, name="cut off") as own:
        working = asyncio.create_task(harness.compress(replace(usual, engine=own.engine)))
        await harness.llm.received(1)
        async with away(harness):
            if end == "is not waited for":
                working.cancel()
            go.set()
            (outcome,) = await asyncio.gather(working, return_exceptions=True)

    assert outcome is None or (end == "is not waited for" and isinstance(outcome, asyncio.CancelledError))
    left = await row(harness.runtime, "select lease_until > now() as leased, due_at <= now() as due from chats")
    assert tuple(left) == (True, True)
    harness.llm.default = Say("In time.")
    await run_sql(harness.runtime, "update chats set lease_until = now() - interval '1 second'")
    await harness.drain(usual)
    assert "In time." in (await harness.talk.ask(leaf))["summary"]
    assert len(await harness.made()) == 1
