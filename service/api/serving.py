"""The hot routes share this in a process: counts, the order of uploads, background work."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import structlog
from starlette.requests import Request

from service.errors import format_trace
from service.request.account import Counts
from service.runtime import Runtime
from service.storage import database
from service.usecases.uploads import UploadQueue
from service.usecases.weigh import ServeContext
from service.usecases.windows import Windows

_MOST_LATER = 200  # stores in the background; beyond that, the next request shows it again

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """The resources of the hot routes, and the work that is done after an answer."""

    context: ServeContext
    _later: set[asyncio.Task[None]] = field(default_factory=set)

    def later(self, work: Coroutine[Any, Any, object]) -> None:
        """Does some work in the background, unless there is too much of it."""
        if len(self._later) >= _MOST_LATER:
            log.warning("compress.not_stored", why="too much is being stored")
            work.close()
            return
        task = asyncio.create_task(_run_quietly(work))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def end(self) -> None:
        """Ends the work in the background."""
        tasks = [*self._later, *self.context.counting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_quietly(work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except database.FAILURES as error:
        log.warning("compress.not_stored", why=type(error).__name__)
    except Exception as error:
        log.error("compress.not_stored", exception=format_trace(error))


@asynccontextmanager
async def open_serving(runtime: Runtime) -> AsyncIterator[Serving]:
    """Serves requests on the resources of a process."""
    context = ServeContext(
        database=runtime.database,
        texts=runtime.texts,
        counts=Counts(),
        settings=runtime.settings,
        uploads=UploadQueue(),
        windows=Windows(runtime.database, runtime.settings),
        wake=runtime.queue.wake,
    )
    this = Serving(context)
    try:
        yield this
    finally:
        await this.end()


def get_serving(request: Request) -> Serving:
    """Finds the resources with which this process serves requests."""
    return cast(Serving, request.app.state.serving)
