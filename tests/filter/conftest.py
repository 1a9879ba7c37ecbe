"""A chat in a stand-in Open WebUI, with the real filter and a real service, and a wire between the two.

Starting a service takes longer than most of these tests, so the tests of a module share one, and each has a chat of
its own. They run in the module's event loop.
"""

import uuid
from collections.abc import AsyncIterator

import pytest_asyncio
from sqlalchemy import make_url

from service.demo.host import Host
from service.runtime import Urls
from service.settings import load
from tests.conftest import TEMPLATE, Service, _sql, serving
from tests.filter.chat import Chat, filter_of
from tests.filter.wire import Wire, wire


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(servers: Urls) -> AsyncIterator[Service]:
    """A running service for models with a window of 8192 tokens, on a database of the module's own."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    await _sql(servers.database, f"create database {name} template {TEMPLATE}")
    database = make_url(servers.database).set(database=name).render_as_string(hide_password=False)
    async with serving(load(database_url=database, redis_url=servers.redis, window=8192, debounce=0)) as started:
        yield started
    await _sql(servers.database, f"drop database {name} with (force)")


@pytest_asyncio.fixture(loop_scope="module")
async def tap(service: Service) -> AsyncIterator[Wire]:
    """The wire to the running service."""
    async with wire(service.url) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def chat(service: Service, tap: Wire) -> AsyncIterator[Chat]:
    """A new chat of the running service."""
    async with filter_of(tap.url, service.filter_key) as loaded:
        yield Chat(Host(), loaded, f"chat-{uuid.uuid4()}")
