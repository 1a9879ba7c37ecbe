"""The FastAPI application. Everything that is open is opened in the lifespan and closed in the opposite order."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from service import __version__
from service.api import chats, context, events, filter, health, jobs, problems
from service.api.deps import InFlight, KeyRing
from service.api.problems import ProblemBody
from service.errors import BadRequest
from service.processes import Texts
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


def _is_text(scope: Scope) -> bool:
    """Whether the path is UTF-8. The server puts the same character for any byte that is not, in one id or another."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return True
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return False
    return True


class _Service(FastAPI):
    """FastAPI, but for the hot route, which is answered before it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        if scope["type"] == "http" and not _is_text(scope):
            refused = BadRequest("the path is not UTF-8: %-escapes in it have to be those of UTF-8")
            await problems.answer(refused)(scope, receive, send)
            return
        try:
            if not await context.answered(scope, receive, send):
                await super().__call__(scope, receive, send)
        finally:
            self.state.in_flight.release(scope)


def create_app(settings: Settings, *beside: Beside, texts: Texts | None = None) -> FastAPI:
    """The service as an ASGI application; `beside` run in the same process, the first one outermost.

    `texts` are text processes that it shares with others; by default it has its own.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            urls = await stack.enter_async_context(servers(settings))
            app.state.runtime = await stack.enter_async_context(running(settings, urls, texts))
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
        responses={
            "4XX": wrong | {"description": "The request cannot be answered; the problem says why."}
        },
    )
    app.state.in_flight = InFlight(settings.max_bytes_in_flight)
    problems.install(app)
    for module in (context, filter, events, chats, jobs, health):
        app.include_router(module.router)
    return app
