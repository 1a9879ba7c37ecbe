"""A chat in a fallback Open WebUI, with the real filter and a real service, and a wire between the two.

The tests of a module share one service, and each has a chat of its own. They run in the module's event loop.
"""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pytest_asyncio import is_async_test

from service.embedded.urls import Urls
from tests.conftest import Service, fresh_database, serving, small_window
from tests.filter.chat import Chat, filter_of
from tests.filter.host import Host
from tests.filter.wire import Wire, wire

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the tests of a module of this folder in one event loop."""
    for item in items:
        if item.path.parent == HERE and is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.fixture(scope="module")
def service(shared_service: Service) -> Service:
    """A running service for models with a window of 8192 tokens."""
    return shared_service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def roomy(servers: Urls) -> AsyncIterator[Service]:
    """A running service whose summaries serve from 6,144 tokens on, far below the window: nothing is ever cut."""
    async with fresh_database(servers) as urls:
        told = small_window(urls).model_copy(update={"window": 20_480, "apply_at": 0.3})
        async with serving(told) as started:
            yield started


@pytest_asyncio.fixture(loop_scope="module")
async def tap(service: Service) -> AsyncIterator[Wire]:
    async with wire(service.url) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def chat(service: Service, tap: Wire) -> AsyncIterator[Chat]:
    """A new chat of the running service, of a user of its own."""
    async with filter_of(tap.url, service.filter_key) as loaded:
        yield Chat(Host(), loaded, f"chat-{uuid.uuid4()}")


@pytest_asyncio.fixture(loop_scope="module")
async def roomy_chat(roomy: Service) -> AsyncIterator[Chat]:
    """The same of the one that never cuts."""
    async with filter_of(roomy.url, roomy.filter_key) as loaded:
        yield Chat(Host(), loaded, f"chat-{uuid.uuid4()}")
