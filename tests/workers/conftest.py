"""The service of a module, with empty tables and an empty queue for each test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests import constants
from tests.conftest import Service
from tests.service.harness import emptied


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared_service: Service) -> AsyncIterator[Service]:
    """A running service without chats, whose workers sweep every second."""
    constants.change(sweep_every=1)
    yield shared_service
    await emptied(shared_service)
