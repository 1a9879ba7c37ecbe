"""The service of a module, with empty tables and an empty queue for each test."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest_asyncio

from tests.conftest import Service
from tests.service.harness import emptied
from workers.worker import running


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared_service: Service) -> AsyncIterator[Service]:
    """A running service without chats, whose workers sweep every second."""
    runtime = shared_service.runtime
    often = runtime.settings.model_copy(update={"sweep_every": 1})
    context = replace(runtime.worker_context, settings=often)
    yield replace(shared_service, runtime=replace(runtime, settings=often, worker_context=context))
    await emptied(shared_service)


@pytest_asyncio.fixture(loop_scope="module")
async def service_with_worker(service: Service) -> AsyncIterator[Service]:
    """With an arq worker in the same process, as `precis serve` has it."""
    runtime = service.runtime
    async with running(runtime.worker_context, runtime.queue, runtime.urls.redis):
        yield service
