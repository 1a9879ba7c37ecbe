"""A server hangs and is not down: it takes connections and answers nothing, until it goes on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from service.api import health
from service.embedded.folder import list_servers
from service.embedded.servers import run_embedded_servers
from service.errors import ConfigurationError
from service.runtime import Urls
from service.storage import database as limits
from service.storage.database import connect, migrate
from service.usecases.compress import compress
from service.usecases.retain import remove_old
from tests.conftest import Service, drain, serving, small_window
from tests.folders import temporary_folder
from tests.service.talk import Talk, long_chat
from tests.waiting import until
from workers.worker import run_worker as worker_running

_in_one_loop = pytest.mark.asyncio(loop_scope="module")

LIMIT = 90
"""Seconds until a wait counts as endless: far more than any limit, for a busy machine."""


@dataclass(frozen=True)
class Hanging:
    """A service with servers of its own, which can be halted."""

    service: Service
    folder: Path
    urls: Urls

    @contextmanager
    def halted(self, name: str) -> Iterator[None]:
        """All processes of a server stand still, as with SIGSTOP, while the context is open."""
        found = [one for one in list_servers(self.folder) if name in one.name()]
        assert found
        everyone = {child for one in found for child in (one, *one.children(recursive=True))}
        for one in everyone:
            one.suspend()
        try:
            yield
        finally:
            for one in everyone:
                if one.is_running():
                    one.resume()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own() -> AsyncIterator[Hanging]:
    with temporary_folder() as folder:
        async with run_embedded_servers(folder / "data", fast=True) as urls:
            await migrate(urls.database)
            async with serving(small_window(urls)) as service:
                service.as_filter.timeout = httpx.Timeout(LIMIT)
                service.as_operator.timeout = httpx.Timeout(LIMIT)
                yield Hanging(service, folder, urls)


def test_a_request_that_finds_the_database_hanging_ends_within_ten_seconds() -> None:
    cancellation = 2  # of SQLAlchemy's dialect, `_terminate_graceful_close`

    assert limits._HOT <= 2
    assert limits._READ <= 10
    assert limits._PLACE + limits._OPEN <= 10
    assert limits._PLACE + cancellation + limits._OPEN <= 10, "the slow engine opens each connection again"
    assert limits._STATEMENT + cancellation <= 10
    assert health._PATIENCE < 3


@_in_one_loop
async def test_while_postgres_hangs_everybody_is_told_so_and_afterwards_all_goes_on(own: Hanging) -> None:
    service, database = own.service, own.service.runtime.database
    talk, leaf = await long_chat(service.as_filter, "before")
    await drain(service.runtime)
    # As many uploads of a tenant as have a turn at a time; with all else, more than the pools have places for.
    others = [Talk(service.as_filter, f"chat-{number}", user=f"user-{number}") for number in range(8)]
    leaves = [other.turns(2) for other in others]
    deleting = service.as_operator.delete("/v1/chats/before")
    # All keys are known, and the pool of the engine has open connections.
    looks = [service.as_operator.get("/v1/chats") for _ in range(12)]
    assert {one.status_code for one in await asyncio.gather(*looks)} == {200}
    await talk.ask(leaf)

    with own.halted("postgres"):
        requests = [
            service.as_operator.get("/readyz"),
            *(service.as_filter.post("/v1/compress", json=talk.request(leaf)) for _ in range(12)),
            *(other.put(other.turn(last)) for other, last in zip(others, leaves, strict=True)),
            *(service.as_operator.get("/v1/chats") for _ in range(12)),
            service.as_operator.get("/v1/stats"),
            service.as_operator.get("/v1/status"),
            service.as_operator.get("/v1/chats/before/find?query=pump"),
            deleting,
        ]
        works = [compress(service.runtime.worker_context), remove_old(database.slow, service.runtime.settings)]
        async with asyncio.timeout(LIMIT):
            answers, ends = await asyncio.gather(
                asyncio.gather(*requests), asyncio.gather(*works, return_exceptions=True)
            )
            with pytest.raises(ConfigurationError, match="no answer within 5 s"):
                async with connect(own.urls.database):
                    pass

        assert (await service.as_operator.get("/livez")).status_code == 200
        ready, *rest = answers
        assert (ready.status_code, ready.json()["queue"]) == (503, "ok")
        assert {(one.status_code, one.headers["retry-after"]) for one in rest} == {(503, "1")}
        assert {one.headers["content-type"] for one in rest} == {"application/problem+json"}
        assert all(isinstance(end, BaseException) and limits.is_away(end) for end in ends), ends

    async def is_ready() -> bool:
        return (await service.as_operator.get("/readyz")).status_code == 200

    await until(is_ready)
    assert (await talk.ask(leaf))["status"] == "ready"
    for other, last in zip(others, leaves, strict=True):
        await other.ingest(last)
    await drain(service.runtime)
    assert (await service.as_operator.delete("/v1/chats/before")).status_code == 204
    assert database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


@_in_one_loop
async def test_a_process_ends_while_postgres_hangs(own: Hanging) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(LIMIT):
        opened = await stack.enter_async_context(connect(own.urls.database))
        async with opened.engine.connect(), opened.engine.connect():
            pass
        with own.halted("postgres"):
            await stack.aclose()


@_in_one_loop
async def test_while_valkey_hangs_uploads_are_taken_and_a_worker_goes_on_afterwards(own: Hanging) -> None:
    service, runtime = own.service, own.service.runtime
    async with worker_running(runtime.worker_context, runtime.queue, own.urls.redis), asyncio.timeout(2 * LIMIT):
        with own.halted("valkey"):
            talk, leaf = await long_chat(service.as_filter, "without a wake-up")
            state = await service.as_operator.get("/readyz")
            assert (state.status_code, state.json()["queue"]) == (200, "no answer: TimeoutError")

        async def is_served() -> bool:
            return bool((await talk.ask(leaf))["status"] == "ready")

        await until(is_served)
