"""The database goes away while a model thinks: the work is left to its lease, and done again when that is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from service.storage.database import connect
from tests.fakes.scripted_llm import Fail, Request, Say
from tests.service.desk import Desk
from tests.service.talk import row, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def away(desk: Desk, engine: AsyncEngine) -> AsyncIterator[None]:
    """For this engine, whose connections are named `cut off`: they are ended, and there are no new ones."""

    def refuse(*_: Any) -> None:
        raise ConnectionRefusedError("nobody listens")

    event.listen(engine.sync_engine, "do_connect", refuse)
    await run_sql(
        desk.service.runtime,
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'cut off'",
    )
    yield
    event.remove(engine.sync_engine, "do_connect", refuse)


@pytest.mark.parametrize("end", ["answers", "fails", "is not waited for"])
async def test_work_that_cannot_be_given_back_is_left_to_its_lease(desk: Desk, end: str) -> None:
    leaf = await desk.long_chat()
    usual, go = desk.bench(summariser_window=32_768), asyncio.Event()

    async def think(_: Request) -> None:
        await go.wait()

    desk.llm.thinking, desk.llm.default = think, Fail(401) if end == "fails" else Say("Too late.")
    async with connect(desk.service.runtime.urls.database, name="cut off") as own:
        working = asyncio.create_task(desk.compress(replace(usual, engine=own.engine)))
        await desk.llm.received(1)
        async with away(desk, own.engine):
            if end == "is not waited for":
                working.cancel()
            go.set()
            (outcome,) = await asyncio.gather(working, return_exceptions=True)

    assert outcome is None or (end == "is not waited for" and isinstance(outcome, asyncio.CancelledError))
    left = await row(desk.service.runtime, "select lease_until > now() as leased, due_at <= now() as due from chats")
    assert tuple(left) == (True, True)
    desk.llm.default = Say("In time.")
    await run_sql(desk.service.runtime, "update chats set lease_until = now() - interval '1 second'")
    await desk.drain(usual)
    assert "In time." in (await desk.talk.ask(leaf))["summary"]
    assert len(await desk.made()) == 1
