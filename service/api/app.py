"""The FastAPI application. Everything that is open is opened in the lifespan and closed in the opposite order."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from service import __version__
from service.api import chats, context, events, filter, health, jobs, problems
from service.api.deps import KeyRing
from service.api.problems import ProblemBody
from service.runtime import Runtime, running, servers
from service.settings import Settings

Beside = Callable[[Runtime], AbstractAsyncContextManager[object]]
"""Something that runs as long as the service does: the embedded worker, a command line that prints the address."""

_DESCRIPTION = """\
Keeps long Open WebUI conversations inside the model's window. The filter asks for `context` before a request and hands
the `transcript` over after each reply; operators look at chats and summaries, correct them, go back to older ones,
reset, recompute and delete, and watch the work.

Errors are `application/problem+json` (RFC 9457). Send an API key as `Authorization: Bearer <key>`.
"""


class _Service(FastAPI):
    """FastAPI, but for the hot route, which is answered before it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        if not await context.answered(scope, receive, send):
            await super().__call__(scope, receive, send)


def create_app(settings: Settings, *beside: Beside) -> FastAPI:
    """The service as an ASGI application; `beside` run in the same process, the first one outermost."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            urls = await stack.enter_async_context(servers(settings))
            app.state.runtime = await stack.enter_async_context(running(settings, urls))
            app.state.keys = KeyRing()
            for start in beside:
                await stack.enter_async_context(start(app.state.runtime))
            yield

    wrong = {"model": ProblemBody, "content": {"application/problem+json": {}}}
    app = _Service(
        title="Precis",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        responses={"4XX": wrong | {"description": "The request cannot be answered; the problem says why."}},
    )
    problems.install(app)
    for module in (context, filter, events, chats, jobs, health):
        app.include_router(module.router)
    return app
