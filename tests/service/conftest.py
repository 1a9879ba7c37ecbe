"""One service for each file of this folder, with empty tables for each test: starting one takes longer than most tests.

Tests that use it run in the loop of their module: `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
"""

import uuid
from collections.abc import AsyncIterator

import httpx
import pytest_asyncio
from redis.asyncio import Redis
from sqlalchemy import make_url

from service.runtime import Urls
from service.settings import load
from tests.conftest import TEMPLATE, Service, _sql, serving
from tests.fakes.scripted_llm import scripted_llm
from tests.service.desk import Desk, Numbered
from tests.service.talk import Talk, run_sql


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _service(servers: Urls) -> AsyncIterator[Service]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    await _sql(servers.database, f"create database {name} template {TEMPLATE}")
    database = make_url(servers.database).set(database=name).render_as_string(hide_password=False)
    async with serving(load(database_url=database, redis_url=servers.redis, window=8192, debounce=0)) as started:
        yield started
    await _sql(servers.database, f"drop database {name} with (force)")


@pytest_asyncio.fixture(loop_scope="module")
async def service(_service: Service) -> AsyncIterator[Service]:
    """A running service without chats."""
    yield _service
    await run_sql(_service.runtime, "truncate chats, audit restart identity cascade")
    async with Redis.from_url(_service.runtime.urls.redis) as redis:
        await redis.flushall()


@pytest_asyncio.fixture(loop_scope="module")
async def desk(service: Service) -> AsyncIterator[Desk]:
    async with scripted_llm(Numbered()) as llm, httpx.AsyncClient() as http:
        yield Desk(service, Talk(service.as_filter), llm, http)
