"""The resources that the hot routes share in a process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from starlette.requests import Request

from service.request.account import Counts
from service.runtime import Runtime
from service.usecases.uploads import UploadQueue
from service.usecases.weigh import ServeContext
from service.usecases.windows import Windows


@asynccontextmanager
async def open_serving(runtime: Runtime) -> AsyncIterator[ServeContext]:
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
    try:
        yield context
    finally:
        await context.end()


def get_serving(request: Request) -> ServeContext:
    """Finds the resources with which this process serves requests."""
    return cast(ServeContext, request.app.state.serving)
