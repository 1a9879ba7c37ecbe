"""The service of a module, with empty tables for each test, and an operator who is signed in to its pages."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conftest import Service
from tests.service.harness import emptied
from tests.service.talk import Talk
from tests.web.visitor import Visitor, visiting


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared_service: Service) -> AsyncIterator[Service]:
    yield shared_service
    await emptied(shared_service)


@pytest.fixture
def talk(service: Service) -> Talk:
    return Talk(service.as_filter)


@pytest_asyncio.fixture(loop_scope="module")
async def visitor(service: Service) -> AsyncIterator[Visitor]:
    """An operator of the first tenant."""
    async with visiting(service, service.operator_key) as signed_in:
        yield signed_in
