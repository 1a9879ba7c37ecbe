"""The service of a module, with empty tables for each test.

Tests that use it run in the loop of their module: `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
"""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.conftest import Service
from tests.fakes.scripted_llm import scripted_llm
from tests.service.harness import Harness, Numbered, emptied
from tests.service.talk import Talk


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared_service: Service) -> AsyncIterator[Service]:
    yield shared_service
    await emptied(shared_service)


@pytest.fixture
def talk(service: Service) -> Talk:
    return Talk(service.as_filter)


@pytest_asyncio.fixture(loop_scope="module")
async def harness(service: Service) -> AsyncIterator[Harness]:
    async with scripted_llm(Numbered()) as llm, httpx.AsyncClient() as http:
        yield Harness(service, Talk(service.as_filter), llm, http)
