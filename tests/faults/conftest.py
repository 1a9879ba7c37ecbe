"""One fleet for all tests of this folder, which run in its loop; and what they do to it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
import pytest_asyncio

from tests.fakes.scripted_llm import scripted_llm
from tests.faults.fleet import Fleet, fleet, reachable_folder
from tests.faults.traffic import narrate
from tests.service.talk import Talk
from tests.waiting import until


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_fleet() -> AsyncIterator[Fleet]:
    """Two API processes, three workers, and their servers."""
    folder = reachable_folder("precis-faults-")
    try:
        async with scripted_llm() as llm, fleet(folder / "data", llm) as made:
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def made(shared_fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, with a model that has forgotten what it was told before."""
    shared_fleet.llm.default = narrate
    shared_fleet.llm.requests.clear()
    yield shared_fleet
    shared_fleet.llm.thinking = None


@pytest_asyncio.fixture(loop_scope="session")
async def client(made: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the filter's key."""
    async with made.client() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def operator(made: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the operator's key."""
    async with made.client("operator") as opened:
        yield opened


async def is_served(talk: Talk, leaf: str) -> bool:
    """Whether a request on this path gets a summary of it."""
    answer = await talk.ask(leaf)
    if answer["status"] != "ready":
        return False
    assert talk.pair(answer["covered_until"]) == (answer["covered_until"], answer["covered_digest"])
    return True


async def at_rest(made: Fleet, chats: str) -> None:
    """Waits until nothing is due for the chats of this pattern."""
    await until(lambda: made.converged(chats), 60, every=0.1)  # each look is a new connection


async def checkpoints(made: Fleet, chats: str) -> int:
    """How many that others grow from there are of the chats of this pattern."""
    query = (
        "select count(*) from checkpoints join chats on chats.id = chat_id"
        " where external_id like $1 and kind <> 'interim'"
    )
    (row,) = await made.rows(query, chats)
    return int(row["count"])


@asynccontextmanager
async def thinking(made: Fleet) -> AsyncIterator[None]:
    """The model thinks until the context is left."""
    done = asyncio.Event()
    made.llm.thinking = lambda _: done.wait()
    try:
        yield
    finally:
        made.llm.thinking = None
        done.set()
