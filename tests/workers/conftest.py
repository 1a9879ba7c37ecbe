"""The service of a module, with empty tables and an empty queue for each test; the plain writer makes its summaries."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest_asyncio

from service.summarising.plain import PLAIN
from tests.conftest import Service
from tests.service.harness import emptied, with_writer
from workers.worker import running


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared_service: Service) -> AsyncIterator[Service]:
    """A running service without chats, whose workers sweep every second."""
    plain = with_writer(shared_service, PLAIN)
    often = plain.runtime.settings.model_copy(update={"sweep_every": 1})
    bench = replace(plain.runtime.worker_context, settings=often)
    yield replace(plain, runtime=replace(plain.runtime, settings=often, worker_context=bench))
    await emptied(shared_service)


@pytest_asyncio.fixture(loop_scope="module")
async def service_with_worker(service: Service) -> AsyncIterator[Service]:
    """With an arq worker in the same process, as `precis serve` has it."""
    runtime = service.runtime
    async with running(runtime.worker_context, runtime.queue, runtime.urls.redis):
        yield service
