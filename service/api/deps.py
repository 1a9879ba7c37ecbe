"""What routes are given: the runtime, the caller behind the API key, the validated body."""

import asyncio
import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, ParamSpec, TypeVar, cast

import msgspec
from fastapi import Depends, Path, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from service import LEAST_FILTER
from service.api import problems, shape
from service.api.wire import Id, schema_of
from service.errors import BadRequest, Busy, FilterTooOld, TooLarge, Unauthorised, WrongScope
from service.runtime import Runtime
from service.storage import keys
from service.usecases.operate import Operator

_KNOWN_FOR = 10.0  # seconds that a key is remembered; a revoked key works that much longer at most
_MOST_KNOWN = 1000
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", re.ASCII)
_LARGE = 2**18  # bytes; parsing more than that takes milliseconds, so it goes to a thread
_SMALL = 2**16  # bytes; uvicorn itself holds as many of each connection before it stops reading
_HELD = "precis.held"  # in a request's scope: bytes of its body that are counted

Model = TypeVar("Model", bound=BaseModel)
Given = ParamSpec("Given")
Result = TypeVar("Result")


def runtime_of(request: Request) -> Runtime:
    """What the application has open."""
    return cast(Runtime, request.app.state.runtime)


class KeyRing:
    """The keys seen lately, so that a request does not cost a second read. Nothing is kept of unknown ones."""

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
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[name] = found, now + _KNOWN_FOR
        return found


async def caller(request: Request, scope: keys.Scope) -> keys.Key:
    """The key that a request carries. A filter that tells its version has to be new enough as well.

    Raises:
        Unauthorised: there is none, or it is unknown or revoked.
        WrongScope: it is for something else.
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
            f"this needs a key with scope {scope!r}, and {found.prefix}… has {found.scope!r}"
        )
    if (
        scope == "filter"
        and (version := _header(request, b"precis-filter"))
        and _release(version) < _LEAST
    ):
        raise FilterTooOld(
            f"this service takes the filter from version {LEAST_FILTER} on, and this one is {version}; run"
            " `precis install-filter`, or paste the file anew",
            least_filter=LEAST_FILTER,
        )
    return found


@lru_cache(maxsize=64)
def _release(version: str) -> tuple[int, int, int]:
    """A version as numbers that compare; remembered, because every request asks."""
    numbers = _VERSION.fullmatch(version)
    if not numbers:
        raise BadRequest("the header `Precis-Filter` has to be a version such as " + LEAST_FILTER)
    return int(numbers[1]), int(numbers[2]), int(numbers[3])


_LEAST = _release(LEAST_FILTER)


# Asynchronous, all of them: FastAPI runs a dependency that is not in a thread, which costs more
# than the hot read.


async def _runtime(request: Request) -> Runtime:
    return runtime_of(request)


async def _filter_key(request: Request) -> keys.Key:
    return await caller(request, "filter")


async def _operator(request: Request) -> Operator:
    key = await caller(request, "operator")
    return Operator(key.tenant, key.actor)


RuntimeDep = Annotated[Runtime, Depends(_runtime)]
FilterKey = Annotated[keys.Key, Depends(_filter_key)]
OperatorDep = Annotated[Operator, Depends(_operator)]
ChatId = Annotated[Id, Path(description="Open WebUI's chat id.")]


def documented(
    model: type[BaseModel] | type[msgspec.Struct], *, required: bool = True
) -> dict[str, Any]:
    """The request body for the OpenAPI page: the routes read it themselves, to bound and thread the parsing."""
    return {
        "requestBody": {
            "required": required,
            "content": {"application/json": {"schema": schema_of(model)}},
        }
    }


class InFlight:
    """The bytes of bodies that the process holds. Small ones do not count, so that the hot read is always answered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def hold(self, scope: Scope, size: int, *, announced: bool = False) -> None:
        """A request holds `size` bytes by now, or announces that it will: then they are not counted yet.

        Raises:
            Busy: they are too many.
        """
        if size <= _SMALL:
            return
        held = scope.get(_HELD, 0)
        if self._held - held + size > self._most:
            raise Busy(
                f"the service holds as many bytes of requests as it takes at once, {self._most}; try again in a moment"
                " (PRECIS_MAX_BYTES_IN_FLIGHT sets the limit)"
            )
        if not announced:
            self._held += size - held
            scope[_HELD] = size

    def release(self, scope: Scope) -> None:
        """The end of a request, whatever came of it."""
        self._held -= scope.pop(_HELD, 0)


async def read_bytes(request: Request) -> bytearray:
    """The body, counted while the request lasts (`InFlight`), bounded in size, in values and in depth.

    Raises:
        TooLarge: more than `max_body_bytes`, however they come, or more than `max_items` values.
        Busy: other requests hold too much.
        BadRequest: the connection ended within it, or it is nested too deep.
    """
    settings = runtime_of(request).settings
    limit, in_flight = settings.max_body_bytes, cast(InFlight, request.app.state.in_flight)
    announced = int(_header(request, b"content-length") or 0)
    if announced > limit:
        raise _too_large(limit)
    in_flight.hold(request.scope, announced, announced=True)
    body = bytearray()
    try:
        async for part in request.stream():
            size = len(body) + len(part)
            if size > limit:
                raise _too_large(limit)
            in_flight.hold(request.scope, size)
            body += part
    except ClientDisconnect:
        raise BadRequest("the connection ended within the body") from None
    await worked(body, shape.check, body, settings.max_items)
    return body


async def worked(
    body: bytearray, work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
) -> Result:
    """Work on a body: that on a large one goes to a thread, because it takes milliseconds."""
    if len(body) < _LARGE:
        return work(*given, **named)
    return await asyncio.to_thread(work, *given, **named)


def _header(request: Request, name: bytes) -> str:
    """A header, or nothing; ASGI gives names in lower case. Starlette's own lookup takes ten times as long."""
    return next(
        (value.decode("latin-1") for key, value in request.scope["headers"] if key == name), ""
    )


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body is larger than {limit} bytes; PRECIS_MAX_BODY_BYTES sets the limit", limit=limit
    )


async def read_body(request: Request, model: type[Model], *, empty: Model | None = None) -> Model:
    """The validated body. `empty` is what no body at all stands for.

    Raises:
        Problem: as `read_bytes` has it.
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
