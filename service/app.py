"""The FastAPI application. Its lifespan opens all resources, and closes them in reverse order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from time import perf_counter
from typing import Any
from urllib.parse import unquote_to_bytes

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from service import __version__, metrics, request_ids
from service.api import (
    audit,
    chats,
    compress,
    events,
    health,
    jobs,
    keys,
    left_alone,
    litellm,
    people,
    problems,
    prompts,
    recall,
    scrape,
    stats,
    turns,
)
from service.api.bodies import BODIES, BodyBudget
from service.api.callers import authenticate
from service.api.deps import WITHOUT_TELEMETRY
from service.api.health import Cache
from service.api.key_cache import KeyCache
from service.api.problems import ProblemBody
from service.api.serving import open_serving
from service.errors import BadRequest, Problem
from service.processes import Texts
from service.runtime import Runtime, open_runtime, open_servers
from service.settings import Settings
from service.text import tokens
from service.web import pages

log = structlog.get_logger(__name__)

BackgroundService = Callable[[Runtime], AbstractAsyncContextManager[object]]
"""The work that runs beside the service: the embedded worker, or a command's output."""

_DESCRIPTION = """\
Keeps long Open WebUI conversations inside the model's context window.

- A `filter` key lets a host `compress` each request before it calls the model, and send finished
  `turns` after each reply.
- An `events` key lets the events function report what was deleted or edited.
- An `operator:read` key shows chats, summaries and the queue.
- An `operator` key also lets you correct a summary, reset or delete a chat, and make keys.

Send an API key as `Authorization: Bearer <key>`, or as `X-Api-Key`; `precis keys create` makes one.
Errors are `application/problem+json` (RFC 9457).
"""

_REFUSED: dict[str, Any] = {
    "model": ProblemBody,
    "content": {"application/problem+json": {}},
    "description": "The request cannot be answered; `detail` says why, and what to change.",
}

# Every turn of a chat takes these routes. FastAPI adds 400 µs to each, more than the hot read
# takes (measured, 0.165), so it knows them for the OpenAPI page only.
_HOT_ROUTES = {
    "/v1/compress": Route("/v1/compress", compress.post_compress, methods=["POST"]),
    "/v1/turns": Route("/v1/turns", turns.post_turn, methods=["POST"]),
    litellm.PATH: Route(litellm.PATH, litellm.post_guardrail, methods=["POST"]),
}


def _decode_path(scope: Scope) -> str:
    """The path, in which a `/` that belongs to an id does not end its part.

    The server has decoded all of it. Here `%` and `/` of each part stay encoded; who reads an id
    from the path decodes it (`deps.ChatId`).

    Raises:
        BadRequest: the path is not UTF-8.
    """
    raw: bytes = scope["raw_path"]
    if b"%" not in raw:
        return str(scope["path"])
    parts = []
    for part in raw.split(b"/"):
        try:
            decoded = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            # The server has replaced all wrong bytes by one character: two ids could become one.
            raise BadRequest("the path is not UTF-8: percent-encode its parts as UTF-8") from None
        parts.append(decoded.replace("%", "%25").replace("/", "%2F"))
    return "/".join(parts)


class _Sender:
    """`send` with our headers on each answer, and what is logged of the answer.

    `status` is the answer's, 0 before it has begun; `ended` is when its last part was sent.
    """

    def __init__(self, send: Send, request_id: str, path: str) -> None:
        self._send = send
        self._request_id = request_id
        self._is_api = path.startswith(("/v1/", "/beta/"))
        self.status = 0
        self.ended = perf_counter()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers.append(request_ids.HEADER, self._request_id)
            headers["x-content-type-options"] = "nosniff"
            if self._is_api:
                headers["cache-control"] = "no-store"
        await self._send(message)
        # Work that a route leaves for after the answer is not counted.
        self.ended = perf_counter()


async def _answer_hot_route(scope: Scope, receive: Receive, send: Send) -> bool:
    """Answers a request for a hot route; False, and nothing done, for any other."""
    route = _HOT_ROUTES.get(scope["path"])
    if route is None or scope["method"] != "POST":
        return False
    scope["route"] = route
    request = Request(scope, receive)
    try:
        key = await authenticate(request, "filter")
        response = await route.endpoint(request, key)
    except Exception as error:
        # FastAPI's error handlers do not see this request.
        response = await problems.answer_error(request, error)
    await response(scope, receive, send)
    return True


class _Service(FastAPI):
    """FastAPI, except for the hot routes, which are answered before it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # FastAPI would set it, but never sees a hot route.
        scope["app"] = self
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        began = perf_counter()
        request_id = request_ids.accept_id(Headers(scope=scope).get(request_ids.HEADER, ""))
        sender = _Sender(send, request_id, scope["path"])
        with request_ids.use_id(request_id):
            try:
                await self._handle(scope, receive, sender)
            finally:
                # Not in a dependency, because hot routes have none.
                self.state.bodies.release(scope)
                # Without a status there was no answer, because the service is stopping.
                if sender.status:
                    self._log(scope, sender.status, sender.ended - began)

    async def _handle(self, scope: Scope, receive: Receive, sender: _Sender) -> None:
        try:
            scope["path"] = _decode_path(scope)
            if not await _answer_hot_route(scope, receive, sender):
                await super().__call__(scope, receive, sender)
        except Problem as refused:  # of the path, before there is a route
            await problems.make_response(refused)(scope, receive, sender)
        except Exception:
            # An error handler has failed. Without this, the answer would be plain text.
            if not sender.status:
                await problems.make_response(Problem(problems.FAILED))(scope, receive, sender)
            raise

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        """Counts a request by its route, and logs it without its query, which may quote a chat."""
        method, route = _find_route(scope)
        metrics.count_request(method, route, status, seconds)
        if self.state.logs_requests:
            log.debug(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(seconds * 1000, 1),
            )


def _find_route(scope: Scope) -> tuple[str, str]:
    """The method and the template of a request's route, as metrics name them."""
    route = scope.get("route")
    if not isinstance(route, Route):
        return metrics.OTHER, metrics.UNMATCHED
    method = scope["method"]
    return method if method in (route.methods or ()) else metrics.OTHER, route.path


def create_app(
    settings: Settings, *background: BackgroundService, texts: Texts | None = None
) -> FastAPI:
    """The service as an ASGI application.

    Args:
        settings: the settings in force.
        background: what runs in the same process, the first one outermost.
        texts: text processes to share with others; by default the service has its own.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            urls = await stack.enter_async_context(open_servers(settings))
            app.state.runtime = await stack.enter_async_context(open_runtime(settings, urls, texts))
            # Without this, counting the first chat takes longer than its filter waits.
            await asyncio.gather(
                app.state.runtime.texts.warm_up(), asyncio.to_thread(tokens.count, "")
            )
            app.state.serving = await stack.enter_async_context(open_serving(app.state.runtime))
            for start in background:
                await stack.enter_async_context(start(app.state.runtime))
            log.info(
                "service.started",
                version=__version__,
                summariser=app.state.runtime.worker_context.by,
                open_servers="given" if settings.database_url else "embedded",
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
    )
    app.state.logs_requests = settings.log_level == "debug"
    app.state.bodies = BodyBudget(BODIES * settings.max_body_bytes)
    app.state.keys = KeyCache()
    app.state.fleet_metrics = Cache[bytes]()
    app.state.readiness = Cache[tuple[bool, dict[str, object]]]()
    problems.install_handlers(app)
    operator_modules = (chats, jobs, stats, keys, audit, people)
    filter_modules = (compress, litellm, turns, prompts, events, recall, left_alone)
    for module in (*filter_modules, *operator_modules, health, scrape):
        app.include_router(module.router)
    pages.install(app)
    return app
