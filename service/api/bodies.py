"""Bodies of requests: bounded in size, time, values and depth, and decoded.

A byte of JSON may become hundreds as objects, so values are counted before it is decoded.
"""

import asyncio
import json
import re
from typing import Any, Final, TypeVar, cast

import msgspec
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from service.api import problems
from service.api.callers import get_runtime
from service.api.wire import make_schema
from service.errors import BadRequest, Problem, ProblemType, TooLarge

MOST_MESSAGES = 10_000
"""The most of one path in one request: a chat of years. Each costs microseconds to read."""
# Texts, numbers, lists and objects of a body: 20 of each message of a path.
MOST_VALUES = 200_000
# Lists and objects within each other.
DEEPEST = 200
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
# A whole text is one token, so that brackets and commas in it are not taken for structure. The
# quantifiers are possessive: a text without an end is read once and not again from each place.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,]', re.DOTALL)
_TEXT = ord('"')

Body = TypeVar("Body", bound=msgspec.Struct)


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


async def read_body(request: Request, model: type[Body], *, empty: Body | None = None) -> Body:
    """The decoded body; `empty`, if given, is the answer for a request without one.

    The bytes, which may be megabytes, are not kept.

    Raises:
        Problem: those of `read_limited` and of `decode_body`.
        Problem: WRONG_MEDIA: its Content-Type is not JSON's; an empty body needs none.
    """
    kind = request.headers.get("content-type", "")
    if kind and not _is_json(kind):
        raise _refuse_media_type(kind)
    body = await read_limited(request)
    if not body and empty is not None:
        return empty
    if body and not kind:
        raise _refuse_media_type("no type")
    return await decode_body(body, model)


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
    if int(request.headers.get("content-length") or 0) > limit:
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
        TooLarge: more than `MOST_VALUES` values.
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
        raise _refuse_depth() from None


def _decode(body: bytearray, model: type[Body]) -> Body:
    _check_values(body)
    try:
        made = msgspec.json.decode(body, type=model)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        made = msgspec.json.decode(_repair_json(body, error), type=model)
    _check_depth(msgspec.structs.asdict(made))
    return made


def _repair_json(body: bytearray, error: Exception) -> bytes:
    """JSON in place of what only Python reads; `error` is raised where it does not either."""
    try:
        value = json.loads(body, parse_constant=lambda _: None)
    except ValueError:
        raise error from None
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _check_values(body: bytearray) -> None:
    """Limits the values in a JSON text, in one pass. Broken JSON may pass to the decoder.

    Raises:
        TooLarge: more than `MOST_VALUES` values, or more than twice as many texts, which are values
            and names.
    """
    # Most bodies have too few brackets and commas even if none of them stood in a text.
    if body.count(b"[") + body.count(b"{") + body.count(b",") < MOST_VALUES:
        return
    values, texts = 1, 0
    for token in _TOKEN.finditer(body):
        if body[token.start()] == _TEXT:
            texts += 1
        else:
            # An opened list or object has a first value, and each comma announces one more.
            values += 1
        if values > MOST_VALUES or texts > 2 * MOST_VALUES:
            told = f"the body has more than {MOST_VALUES} values; begin a new chat, or send less"
            raise TooLarge(told, limit=MOST_VALUES)


def _check_depth(body: dict[str, object]) -> None:
    """Limits the lists and objects within each other, level by level.

    Raises:
        BadRequest: more than `DEEPEST` of them.
    """
    containers: list[dict[str, object] | list[object]] = [body]
    for _ in range(DEEPEST):
        inner = []
        for container in containers:
            parts = container.values() if isinstance(container, dict) else container
            inner += [part for part in parts if isinstance(part, (dict, list))]
        containers = inner
        if not containers:
            return
    raise _refuse_depth()


def _refuse_depth() -> BadRequest:
    return BadRequest(f"the body has more than {DEEPEST} levels of lists and objects; flatten it")
