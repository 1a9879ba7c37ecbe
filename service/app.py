"""The FastAPI application. Its lifespan opens all resources, and closes them in reverse order."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from time import perf_counter
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

import structlog
from fastapi import Depends, FastAPI
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from service import __version__, metrics, request_ids
from service.api import (
    audit,
    chats,
    context,
    events,
    filter,
    health,
    hosts,
    jobs,
    keys,
    left_alone,
    people,
    problems,
    recall,
    scrape,
    stats,
    summariser,
)
from service.api.deps import WITHOUT_TELEMETRY, InFlight, known_parameters
from service.api.health import Readiness, Refusals
from service.api.key_ring import KeyRing
from service.api.limits import Limiter
from service.api.problems import ProblemBody
from service.api.scrape import FleetFigures
from service.errors import BadRequest, Problem
from service.processes import Texts
from service.runtime import Runtime, running, servers
from service.settings import Settings
from service.usecases import turns
from service.web import pages

log = structlog.get_logger(__name__)

Beside = Callable[[Runtime], AbstractAsyncContextManager[object]]
"""Something that runs as long as the service: the embedded worker, or a command's own output."""

_DESCRIPTION = """\
Keeps long Open WebUI conversations inside the model's context window.

- With a `filter` key: the filter asks for the `context` of a request before the model is called,
  and sends the `transcript` of new messages after each reply.
- With an `events` key: the events function tells what was deleted or edited.
- With an `operator:read` key: look at chats, summaries and the queue.
- With an `operator` key: correct a summary too, serve an older version, reset, recompute or delete,
  and make keys.

Send an API key as `Authorization: Bearer <key>`; `precis keys create` makes one. Errors are
`application/problem+json` (RFC 9457).
"""

_REFUSED: dict[str, Any] = {
    "model": ProblemBody,
    "content": {"application/problem+json": {}},
    "description": "The request cannot be answered; `detail` says why, and what to change.",
}


_NO_GUESS = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
_REQUEST_ID = request_ids.HEADER.lower().encode()


def _check_text(scope: Scope) -> None:
    """Raises BadRequest unless the path is UTF-8."""
    # The server replaces every wrong byte by the same character, so two ids could become one.
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadRequest("the path is not UTF-8: percent-encode its parts as UTF-8") from None


def _in_parts(scope: Scope) -> str:
    """The path, in which a `/` that belongs to an id does not end its part.

    The server has decoded all of it. Here `%` and `/` of each part stay encoded; who reads an id
    from the path decodes it (`deps.ChatId`).
    """
    raw = (scope.get("raw_path") or b"").decode("ascii", "replace")
    if "%2f" not in raw.lower() and "%25" not in raw:
        return str(scope["path"])
    parts = (unquote(part).replace("%", "%25").replace("/", "%2F") for part in raw.split("/"))
    return "/".join(parts)


def _noted(scope: Scope, send: Send) -> Send:
    """`send` with a log line for the answer, without the query: it may quote a chat."""
    began = perf_counter()

    async def noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            log.debug(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=message["status"],
                ms=round((perf_counter() - began) * 1000, 1),
            )
        await send(message)

    return noted


def _named(send: Send, request_id: bytes, path: str) -> Send:
    """`send` with the request id in the answer's head, and what it says to browsers and caches."""
    is_api = path.startswith("/v1/")

    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (_REQUEST_ID, request_id)]
            # Pages have headers of their own (`web.page`).
            own = dict(headers)
            if b"x-content-type-options" not in own:
                headers.append(_NO_GUESS)
            if is_api and b"cache-control" not in own:
                headers.append(_NO_STORE)
            message["headers"] = headers
        await send(message)

    return named


def _request_id(scope: Scope) -> str:
    """The id that a request was sent with; a new one when it has none, or an invalid one."""
    for name, value in scope["headers"]:
        if name == _REQUEST_ID:
            return request_ids.accepted(value.decode("latin-1"))
    return request_ids.fresh()


class _Service(FastAPI):
    """FastAPI, except for the hot route, which is answered before it (`context.answered`)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # FastAPI would set it, but the hot route never gets there.
        scope["app"] = self
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        scope["path"] = _in_parts(scope)
        request_id = _request_id(scope)
        with request_ids.within(request_id):
            send = _named(send, request_id.encode(), scope["path"])
            if self.state.logs_requests:
                send = _noted(scope, send)
            await self._handled(scope, receive, send)

    async def _handled(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived, begun = perf_counter(), False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            hosts.check(scope, self.state.hosts)
            _check_text(scope)
            if not await context.answered(scope, receive, noting):
                await self._check_open(scope)
                await self._counted(scope, receive, noting)
        except Problem as refused:  # before a route was asked
            await problems.answer(refused)(scope, receive, send)
            metrics.request_ended(*_route(scope), refused.status, perf_counter() - arrived)
        except Exception:
            if not begun:  # what answers errors has failed; the server would send plain text
                await problems.answer(Problem(problems.FAILED))(scope, receive, send)
            raise
        finally:
            # Here and not in a dependency: the hot route has none.
            self.state.in_flight.release(scope)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, and counts it by its route; the hot route counts its own."""
        began = ended = perf_counter()
        status = 0

        async def noting(message: Message) -> None:
            nonlocal ended, status
            await send(message)
            # Of the last message: what a route leaves for after the answer does not count.
            ended = perf_counter()
            status = message.get("status", status)

        try:
            await super().__call__(scope, receive, noting)
        finally:
            # 0: no answer was begun, because the service is stopping.
            if status:
                metrics.request_ended(*_route(scope), status, ended - began)

    async def _check_open(self, scope: Scope) -> None:
        """Raises TooMany for what needs no key and comes too often from an address."""
        if not scope["path"].startswith("/v1/"):
            client = scope.get("client")
            await self.state.limiter.check_open(client[0] if client else "")


def _route(scope: Scope) -> tuple[str, str]:
    """The method and the template of a request's route, as metrics name them."""
    route = scope.get("route")
    if not isinstance(route, Route):
        return metrics.OTHER, metrics.UNMATCHED
    method = scope["method"]
    return method if method in (route.methods or ()) else metrics.OTHER, route.path


def create_app(settings: Settings, *beside: Beside, texts: Texts | None = None) -> FastAPI:
    """The service as an ASGI application.

    Args:
        settings: the settings in force.
        beside: what runs in the same process, the first one outermost.
        texts: text processes to share with others; by default the service has its own.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            urls = await stack.enter_async_context(servers(settings))
            app.state.runtime = await stack.enter_async_context(running(settings, urls, texts))
            for start in beside:
                await stack.enter_async_context(start(app.state.runtime))
            log.info(
                "service.started",
                version=__version__,
                summariser=app.state.runtime.worker_context.by,
                servers="given" if settings.database_url else "embedded",
            )
            yield

    app = _Service(
        title="Precis",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        telemetry=WITHOUT_TELEMETRY,
        responses={"4XX": _REFUSED},
        dependencies=[Depends(known_parameters)],
    )
    app.state.logs_requests = settings.log_level == "debug"
    app.state.in_flight = InFlight(turns.BODIES * settings.max_body_bytes)
    app.state.limiter = Limiter()
    app.state.keys = KeyRing()
    app.state.hosts = settings.hosts()
    app.state.turns = turns.Turns(settings.max_body_bytes)
    app.state.figures = FleetFigures()
    app.state.refusals = Refusals()
    app.state.readiness = Readiness()
    problems.install(app)
    operators = (chats, jobs, stats, summariser, keys, audit, people)
    for module in (context, filter, events, recall, left_alone, *operators, health, scrape):
        app.include_router(module.router)
    pages.install(app)
    return app
