"""What stands between a filter and its service on the wire: it records every request, and may misbehave.

`async with wire(service.url) as tap:` forwards to a service; `wire(Answer({}, 500))` or `wire(Silence())` answer in its
place. Point the filter at `tap.url`, and look at `tap.seen` afterwards.
"""

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.fakes import http_server


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; text goes as it is, anything else as JSON."""

    body: object
    status: int = 200


@dataclass(frozen=True, slots=True)
class Silence:
    """The request is read and never answered."""


@dataclass(frozen=True, slots=True)
class Trickle:
    """A good head, then a blank now and then, for ever."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """The connection is closed without an answer."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """Each request is answered by what a function makes of its body."""

    make: Callable[[Any], object]


Behaviour = Answer | Scripted | Silence | Trickle | HangUp | str
"""A string is the URL of a real service, which answers."""


@dataclass(frozen=True, slots=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Wire:
    """`behaviour` may be changed at any time."""

    behaviour: Behaviour
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)  # set when the first request is there

    @property
    def asked(self) -> list[str]:
        """Method and last part of the path of every request so far."""
        return [f"{one.method} {one.path.rpartition('/')[2]}" for one in self.seen]

    def bodies(self, method: str) -> list[Any]:
        return [one.body for one in self.seen if one.method == method]


@contextlib.asynccontextmanager
async def wire(behaviour: Behaviour) -> AsyncIterator[Wire]:
    """Listens on a free port of 127.0.0.1 until the block ends; then open connections are cut."""
    tap = Wire(behaviour)
    async with (
        httpx.AsyncClient(trust_env=False, timeout=120) as upstream,
        http_server.serving(functools.partial(_answer, tap, upstream)) as tap.url,
    ):
        yield tap


async def _answer(
    tap: Wire,
    upstream: httpx.AsyncClient,
    raw: http_server.Raw,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> bool:
    """Answers one request; False when the connection is done with."""
    seen = Seen(raw.method, raw.path, raw.headers, json.loads(raw.content) if raw.content else None)
    tap.seen.append(seen)
    tap.arrived.set()
    match tap.behaviour:
        case str(url):
            ours = ("authorization", "x-api-key", "content-type", "precis-filter", "x-request-id")
            headers = {name: seen.headers[name] for name in ours if name in seen.headers}
            response = await upstream.request(seen.method, url + seen.path, content=raw.content, headers=headers)
            return await _send(writer, response.status_code, response.content)
        case Answer(body, status):
            text = body if isinstance(body, str) else json.dumps(body)
            return await _send(writer, status, text.encode())
        case Scripted(make):
            return await _send(writer, 200, json.dumps(make(seen.body)).encode())
        case Trickle():
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.001)
        case Silence():
            await reader.read()
    return False


async def _send(writer: asyncio.StreamWriter, status: int, content: bytes) -> bool:
    writer.write(http_server.head(status, len(content), {}) + content)
    await writer.drain()
    return True
