"""Dependencies of routes: the runtime, the caller's key, the validated body."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar, cast
from urllib.parse import unquote

import msgspec
from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer
from fastapi.telemetry import TelemetryConfig
from pydantic import BeforeValidator
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from service.api import problems, shape
from service.api.callers import authenticate, get_runtime, read_header
from service.api.wire import Id, make_schema
from service.errors import BadRequest, Problem, ProblemType, TooLarge
from service.names import KeyScope
from service.runtime import Runtime
from service.storage import keys
from service.storage.keys import Operator

MOST_MESSAGES = 10_000
"""The most of one path in one request: a chat of years. Each costs microseconds to read."""
# Bytes; parsing more takes milliseconds, so that it is done in a thread.
_LARGE = 2**18
# Bytes; uvicorn itself holds as many of each connection before it stops reading.
_SMALL = 2**16
BODIES: Final = 4
"""How many of the largest bodies one process holds at a time.

A byte of a body takes up to 23 bytes of memory while it is worked on.
"""
# Characters of an unknown media type in an error.
_SHOWN = 40
# Seconds for all of a body; the filter waits 30 s for its answer.
_WHOLE_BODY = 60.0
# Key in a request's scope: bytes of its body that are counted as held.
_HELD = "precis.held"

# FastAPI's own spans and logs hold errors' messages and validated bodies, which are chats; whoever
# starts the service under OpenTelemetry's agent would send them.
WITHOUT_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}

Body = TypeVar("Body", bound=msgspec.Struct)


# All of them are asynchronous: FastAPI runs other dependencies in a thread, which costs more than
# the hot read.


async def _provide_runtime(request: Request) -> Runtime:
    return get_runtime(request)


KEY_SCHEME = "API key"
"""The security scheme's name on the OpenAPI page."""
# Only for that page and its button *Authorize*: `caller` reads the header, on the hot route too.
_bearer = HTTPBearer(
    scheme_name=KEY_SCHEME,
    description="A key from `precis keys create`; its scope decides which routes it opens.",
    auto_error=False,
)
_Described = Annotated[object, Security(_bearer)]


def _require_key(scope: KeyScope) -> Callable[..., Awaitable[keys.Key]]:
    async def key(request: Request, _: _Described) -> keys.Key:
        return await authenticate(request, scope)

    return key


async def _require_operator(request: Request, _: _Described) -> Operator:
    # The method decides, so that nobody who may only look can reach a route that changes something.
    is_look = request.method in ("GET", "HEAD")
    return (await authenticate(request, "operator:read" if is_look else "operator")).by


RuntimeDep = Annotated[Runtime, Depends(_provide_runtime)]
FilterKey = Annotated[keys.Key, Depends(_require_key("filter"))]
EventsKey = Annotated[keys.Key, Depends(_require_key("events"))]
OperatorDep = Annotated[Operator, Depends(_require_operator)]
"""Who may look, and with the scope `operator` change something too."""
KeeperKey = Annotated[keys.Key, Depends(_require_key("operator"))]
"""A key that may see and change keys, whatever the method."""
ChatId = Annotated[Id, BeforeValidator(unquote), Path(description="Open WebUI's chat id.")]
"""The server leaves `%` and `/` of a part of the path as they were sent (`app`)."""


def document_body(
    model: type[msgspec.Struct], *, required: bool = True, example: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The request body for the OpenAPI page, with an example that may be sent as it is.

    Routes read it themselves, so that its size is limited and a large one is parsed in a thread.
    """
    media: dict[str, Any] = {"schema": make_schema(model)}
    if example is not None:
        media["example"] = example
    return {"requestBody": {"required": required, "content": {"application/json": media}}}


class BodyBudget:
    """Counts the bytes of bodies that the process holds.

    Small bodies do not count, so small requests are answered while large ones are refused.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def hold(self, scope: Scope, size: int) -> None:
        """Counts `size` bytes for a request, of which some may be counted already.

        Raises:
            Problem: BUSY: the process would hold too many.
        """
        if size <= _SMALL:
            return
        more = size - scope.get(_HELD, 0)
        if self._held + more > self._most:
            raise Problem(
                f"The service already has {self._held / 2**20:.0f} MB of requests in progress;"
                " retry in a moment",
                ProblemType.BUSY,
            )
        self._held += more
        scope[_HELD] = size

    def release(self, scope: Scope) -> None:
        """Counts a request's bytes no more, however it ended."""
        self._held -= scope.pop(_HELD, 0)


async def read_bytes(request: Request) -> bytearray:
    """The body of JSON.

    Raises:
        Problem: those of `read_limited`.
        Problem: WRONG_MEDIA: its Content-Type is not JSON's; an empty body needs none.
    """
    kind = read_header(request, b"content-type")
    # As our own functions send it, which need no closer look.
    if kind and kind != "application/json" and not _is_json(kind):
        raise _refuse_media_type(kind)
    body = await read_limited(request)
    if body and not kind:
        raise _refuse_media_type("no type")
    return body


def _is_json(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _refuse_media_type(kind: str) -> Problem:
    return Problem(
        f"the body is sent as {kind[:_SHOWN]!r}; send JSON, with `Content-Type: application/json`",
        ProblemType.WRONG_MEDIA,
    )


async def read_limited(request: Request) -> bytearray:
    """The body, limited in size, and counted until it is answered (`BodyBudget`).

    Raises:
        TooLarge: more than `max_body_bytes`.
        Problem: BUSY: the process holds too many bytes of requests.
        Problem: TOO_SLOW: the body did not arrive in time.
        BadRequest: the connection ended within it.
    """
    budget = cast(BodyBudget, request.app.state.bodies)
    limit = get_runtime(request).settings.max_body_bytes
    # A body that is too large as announced is refused before a byte of it is read.
    if int(read_header(request, b"content-length") or 0) > limit:
        raise _refuse_size(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(_WHOLE_BODY):
            async for part in request.stream():
                body += part
                if len(body) > limit:
                    raise _refuse_size(limit)
                budget.hold(request.scope, len(body))
    except TimeoutError:
        late = f"the whole body did not arrive within {_WHOLE_BODY:g} s"
        raise Problem(late, ProblemType.TOO_SLOW) from None
    except ClientDisconnect:
        raise BadRequest("the connection ended within the body") from None
    return body


def _refuse_size(limit: int) -> TooLarge:
    return TooLarge(
        f"the body is larger than {limit} bytes; send less, or raise PRECIS_MAX_BODY_BYTES",
        limit=limit,
    )


async def decode_body(body: bytearray, model: type[Body]) -> Body:
    """The decoded body, limited in values and depth.

    Python writes NaN, Infinity and halves of characters, which are no JSON; hosts may have stored
    some. They become null and `?`.

    Raises:
        TooLarge: more than `shape.MOST_VALUES` values.
        BadRequest: not JSON, or nested too deep.
        Unprocessable: JSON of another shape.
    """
    try:
        if len(body) < _LARGE:
            return _decode(body, model)
        return await asyncio.to_thread(_decode, body, model)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise problems.make_body_problem(error) from None
    except RecursionError:
        raise shape.refuse_depth() from None


def _decode(body: bytearray, model: type[Body]) -> Body:
    shape.check_values(body, shape.MOST_VALUES)
    try:
        made = msgspec.json.decode(body, type=model)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        made = msgspec.json.decode(_repair_json(body, error), type=model)
    shape.check_depth(msgspec.structs.asdict(made))
    return made


def _repair_json(body: bytearray, error: Exception) -> bytes:
    """JSON in place of what only Python reads; `error` is raised where it does not either."""
    try:
        value = json.loads(body, parse_constant=lambda _: None)
    except ValueError:
        raise error from None
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


async def read_body(request: Request, model: type[Body], *, empty: Body | None = None) -> Body:
    """The decoded body; `empty`, if given, is the answer for a request without one.

    Raises:
        Problem: those of `read_bytes` and of `decode_body`.
    """
    body = await read_bytes(request)
    if not body and empty is not None:
        return empty
    return await decode_body(body, model)
