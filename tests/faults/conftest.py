"""One fleet for all tests of this folder, which run in its loop."""

import shutil
from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from tests.fakes.scripted_llm import scripted_llm
from tests.faults.fleet import Fleet, fleet, reachable_folder
from tests.faults.traffic import narrate


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def made() -> AsyncIterator[Fleet]:
    """Two API processes, three workers, their servers, and a model that tells stories."""
    folder = reachable_folder("precis-faults-")
    try:
        async with scripted_llm(narrate) as llm, fleet(folder / "data", llm) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest_asyncio.fixture(loop_scope="session")
async def client(made: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the filter's key."""
    async with made.client() as opened:
        yield opened
