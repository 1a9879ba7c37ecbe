"""A chat in a fallback Open WebUI, with the real filter and a real service, and a wire between the two.

The tests of a module share one service, and each has a chat of its own. They run in the module's event loop.
"""

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conftest import Service
from tests.filter.chat import Chat, filter_of
from tests.filter.host import Host
from tests.filter.wire import Wire, wire


@pytest.fixture(scope="module")
def service(shared_service: Service) -> Service:
    """A running service for models with a window of 8192 tokens."""
    return shared_service


@pytest_asyncio.fixture(loop_scope="module")
async def tap(service: Service) -> AsyncIterator[Wire]:
    """The wire to the running service."""
    async with wire(service.url) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def chat(service: Service, tap: Wire) -> AsyncIterator[Chat]:
    """A new chat of the running service, of a user of its own. Nothing is cut: `test_cap` is about that."""
    async with filter_of(tap.url, service.filter_key, cuts=False) as loaded:
        yield Chat(Host(), loaded, f"chat-{uuid.uuid4()}")
