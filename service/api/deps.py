"""What routes depend on: the runtime, the caller of an API key, the validated body."""

import asyncio
import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, ParamSpec, TypeVar, cast

import msgspec
from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer
from fastapi.telemetry import TelemetryConfig
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from service import LEAST_FILTER, metrics
from service.api import problems, shape
from service.api.wire import Id, schema_of
from service.errors import (
    BadRequest,
    Busy,
    FilterTooOld,
    TooLarge,
    Unauthorised,
    Unprocessable,
    WrongScope,
)
from service.runtime import Runtime
from service.storage import keys
from service.usecases.operate import Operator

# Seconds that a key is remembered; a revoked key works that much longer at most.
_KNOWN_FOR = 10.0
_MOST_KNOWN = 1000
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", re.ASCII)
# Bytes; parsing more takes milliseconds, so that it is done in a thread.
_LARGE = 2**18
# Bytes; uvicorn itself holds as many of each connection before it stops reading.
_SMALL = 2**16
# Characters of an unknown parameter, and how many of them, in an error.
_SHOWN, _SHOWN_UNKNOWN = 40, 5
# Key in a request's scope: bytes of its body that are counted as held.
_HELD = "precis.held"

# FastAPI's own spans and logs hold errors' messages and validated bodies, which are chats; whoever
# starts the service under OpenTelemetry's agent would send them. `tracing` makes ours.
WITHOUT_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}

Model = TypeVar("Model", bound=BaseModel)
Given = ParamSpec("Given")
Result = TypeVar("Result")


def runtime_of(request: Request) -> Runtime:
    """The application's open resources."""
    return cast(Runtime, request.app.state.runtime)


class KeyRing:
    """Keys that were used recently, so that a request does not cost a second read.

    Unknown keys are not remembered, else anybody could fill the memory.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[keys.Key, float]] = {}

    async def find(self, runtime: Runtime, key: str) -> keys.Key | None:
        """The key's row, at most `_KNOWN_FOR` seconds old."""
        name, now = keys.hash_of(key), time.monotonic()
        known = self._known.get(name)
        if known and known[1] > now:
            return known[0]
        async with runtime.database.engine.connect() as connection:
            found = await keys.find(connection, key)
        self._known.pop(name, None)
        if found:
            self._remember(name, found, now + _KNOWN_FOR)
        return found

    def _remember(self, name: bytes, key: keys.Key, until: float) -> None:
        # Clearing costs one read for each key in use, and spares a bookkeeping of ages.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = key, until


async def caller(request: Request, scope: keys.Scope) -> keys.Key:
    """The key of a request. A filter that sends its version has to be new enough as well.

    Raises:
        Unauthorised: the key is missing, unknown or revoked.
        WrongScope: the key has another scope.
        FilterTooOld: the header `Precis-Filter` names a version below `LEAST_FILTER`.
        BadRequest: that header is no version.
    """
    kind, _, key = _header(request, b"authorization").partition(" ")
    if kind.lower() != "bearer" or not key:
        raise Unauthorised("send an API key as `Authorization: Bearer <key>`")
    found = await cast(KeyRing, request.app.state.keys).find(runtime_of(request), key.strip())
    if found is None:
        raise Unauthorised("this API key is unknown or revoked; make one with `precis keys create`")
    if found.scope != scope:
        raise WrongScope(
            f"this needs a key with scope {scope!r}, but the key {found.prefix}… has"
            f" {found.scope!r}; make one with `precis keys create --scope {scope}`"
        )
    if scope == "filter":
        _check_filter(_header(request, b"precis-filter"))
    return found


def _check_filter(version: str) -> None:
    # Clients other than our two functions send no version, and are taken as they are.
    release = _release(version) if version else _LEAST
    metrics.filter_asked(version)
    if release < _LEAST:
        raise FilterTooOld(
            f"the filter in Open WebUI is {version}, but this service needs {LEAST_FILTER} or"
            " newer; run `precis install-filter`, or paste the file of this release",
            least_filter=LEAST_FILTER,
        )


# Every request of a filter asks. Bounded, because anybody with a key may send any version.
@lru_cache(maxsize=64)
def _release(version: str) -> tuple[int, int, int]:
    """A version as numbers that compare."""
    numbers = _VERSION.fullmatch(version)
    if not numbers:
        raise BadRequest(
            f"the header `Precis-Filter` is not a version; send one such as {LEAST_FILTER}"
        )
    return int(numbers[1]), int(numbers[2]), int(numbers[3])


_LEAST = _release(LEAST_FILTER)


# All of them are asynchronous: FastAPI runs other dependencies in a thread, which costs more than
# the hot read.


async def _runtime(request: Request) -> Runtime:
    return runtime_of(request)


KEY_SCHEME = "API key"
"""The security scheme's name on the OpenAPI page."""
# Only for that page and its button *Authorize*: `caller` reads the header, on the hot route too.
_bearer = HTTPBearer(
    scheme_name=KEY_SCHEME,
    description="A key from `precis keys create`; its scope decides which routes it opens.",
    auto_error=False,
)
_Described = Annotated[object, Security(_bearer)]


async def _filter_key(request: Request, _: _Described) -> keys.Key:
    return await caller(request, "filter")


async def _operator_key(request: Request, _: _Described) -> keys.Key:
    return await caller(request, "operator")


OperatorKey = Annotated[keys.Key, Depends(_operator_key)]


async def _operator(key: OperatorKey) -> Operator:
    return Operator(key.tenant, key.actor)


RuntimeDep = Annotated[Runtime, Depends(_runtime)]
FilterKey = Annotated[keys.Key, Depends(_filter_key)]
OperatorDep = Annotated[Operator, Depends(_operator)]
ChatId = Annotated[Id, Path(description="Open WebUI's chat id.")]


async def known_parameters(request: Request) -> None:
    """Refuses query parameters that the route does not have: a filter that is misspelt lists all.

    Raises:
        Unprocessable: a parameter is unknown.
    """
    if not request.scope["query_string"] or not request.url.path.startswith("/v1/"):
        return
    described = request.app.openapi()["paths"].get(request.scope["route"].path, {})
    operation = described.get(request.method.lower(), {})
    known = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        named = ", ".join(repr(name[:_SHOWN]) for name in unknown[:_SHOWN_UNKNOWN])
        raise Unprocessable(
            f"unknown query parameters: {named}; this route has {', '.join(known) or 'none'}"
        )


def documented(
    model: type[BaseModel] | type[msgspec.Struct], *, required: bool = True
) -> dict[str, Any]:
    """The request body for the OpenAPI page.

    Routes read it themselves, so that its size is limited and a large one is parsed in a thread.
    """
    return {
        "requestBody": {
            "required": required,
            "content": {"application/json": {"schema": schema_of(model)}},
        }
    }


class InFlight:
    """Counts the bytes of bodies that the process holds.

    Small bodies do not count, so that the hot read is answered while uploads are refused.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def hold(self, scope: Scope, size: int, *, announced: bool = False) -> None:
        """Counts `size` bytes for a request, or only checks them while they are `announced`.

        Raises:
            Busy: the process would hold too many.
        """
        if size <= _SMALL:
            return
        held = scope.get(_HELD, 0)
        if self._held - held + size > self._most:
            raise Busy(
                f"with this body, the service would hold more than {self._most} bytes of requests;"
                " try again in a moment (PRECIS_MAX_BYTES_IN_FLIGHT sets the limit)"
            )
        if not announced:
            self._held += size - held
            scope[_HELD] = size

    def release(self, scope: Scope) -> None:
        """Counts a request's bytes no more, however it ended."""
        self._held -= scope.pop(_HELD, 0)


async def read_bytes(request: Request) -> bytearray:
    """The body of JSON, limited in values and depth too.

    Raises:
        Problem: those of `read_limited`.
        TooLarge: more than `max_items` values.
        BadRequest: it is nested too deep.
    """
    body = await read_limited(request)
    await worked(body, shape.check, body, runtime_of(request).settings.max_items)
    return body


async def read_limited(request: Request) -> bytearray:
    """The body, limited in size, and counted until it is answered (`InFlight`).

    Raises:
        TooLarge: more than `max_body_bytes`, announced or not.
        Busy: the process holds too many bytes of requests.
        BadRequest: the connection ended within it.
    """
    in_flight = cast(InFlight, request.app.state.in_flight)
    limit = runtime_of(request).settings.max_body_bytes
    # A body that is too large as announced is refused before a byte of it is read.
    announced = int(_header(request, b"content-length") or 0)
    if announced > limit:
        raise _too_large(limit)
    in_flight.hold(request.scope, announced, announced=True)
    try:
        return await _received(request, limit, in_flight)
    except ClientDisconnect:
        raise BadRequest("the connection ended within the body") from None


async def _received(request: Request, limit: int, in_flight: InFlight) -> bytearray:
    body = bytearray()
    async for part in request.stream():
        size = len(body) + len(part)
        # Checked as it comes too: a chunked body announces nothing.
        if size > limit:
            raise _too_large(limit)
        in_flight.hold(request.scope, size)
        body += part
    return body


async def worked(
    body: bytearray, work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
) -> Result:
    """Calls `work` for a body; in a thread if it is large, because that takes milliseconds."""
    if len(body) < _LARGE:
        return work(*given, **named)
    return await asyncio.to_thread(work, *given, **named)


def _header(request: Request, name: bytes) -> str:
    """The first header of a name in lower case, or an empty text."""
    # Starlette's own lookup takes ten times as long.
    for key, value in request.scope["headers"]:
        if key == name:
            return cast(bytes, value).decode("latin-1")
    return ""


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body is larger than {limit} bytes; send less, or raise PRECIS_MAX_BODY_BYTES",
        limit=limit,
    )


async def read_body(request: Request, model: type[Model], *, empty: Model | None = None) -> Model:
    """The validated body; `empty`, if given, is the answer for a request without one.

    Raises:
        Problem: those of `read_bytes`.
        BadRequest: not JSON.
        Unprocessable: JSON of another shape.
    """
    body = await read_bytes(request)
    if not body and empty is not None:
        return empty
    try:
        return await worked(body, model.model_validate_json, body)
    except ValidationError as error:
        raise problems.from_pydantic(error) from None
