"""Raw connections: what is too much, too large, or comes too slowly is refused, and nobody else notices."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple

import httpx
import pytest

from service.api import bodies, connection
from service.settings import Settings
from tests.conftest import Service, serving
from tests.service.problems import TURNS
from tests.service.talk import rows
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

START = b"GET /livez HTTP/1.1\r\nHost: here\r\n"
WHOLE = START + b"\r\n"
GIANT = 150 * 2**20


class Answer(NamedTuple):
    status: int
    fields: dict[str, str]


class Line:
    """A connection on which bytes are sent as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """The next answer, whose body is read."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        await self.reader.readexactly(int(fields["content-length"]))
        return Answer(int(first.split()[1]), fields)


@asynccontextmanager
async def line(service: Service) -> AsyncIterator[Line]:
    url = httpx.URL(service.url)
    async with asyncio.timeout(120):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            yield Line(reader, writer)
        finally:
            writer.transport.abort()


def upload(service: Service, size: int) -> bytes:
    head = f"POST {TURNS} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {service.filter_key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()


@pytest.mark.parametrize("where", ["in the head", "behind a body in chunks"])
async def test_one_giant_field_is_refused_before_it_is_taken(service: Service, where: str) -> None:
    chunked = upload(service, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
    async with line(service) as sender:
        sent = 0
        await sender.send((START if where == "in the head" else chunked) + b"X-Giant: ")
        with suppress(ConnectionError):
            while sent < GIANT:
                await sender.send(b"x" * 2**16)
                sent += 2**16

        assert sent < GIANT / 10, "what lies in the buffers of two sockets"


async def test_a_head_of_nearly_64_kilobytes_is_taken_though_a_large_body_comes_with_it(service: Service) -> None:
    async with line(service) as sender:
        padding = b"X-Much: " + b"x" * 60_000 + b"\r\n\r\n"
        head = upload(service, 100_000).removesuffix(b"\r\n") + padding

        await sender.send(head + b"x" * 100_000)

        assert (await sender.answer()).status == 400  # the body is no JSON


async def test_a_body_that_is_announced_as_too_large_is_refused_before_it_comes(service: Service) -> None:
    async with line(service) as sender:
        await sender.send(upload(service, GIANT))
        assert (await sender.answer()).status == 413


async def test_a_body_that_drips_has_a_time_for_all_of_it_and_nothing_is_stored(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent to a closed connection resets it, and a stream would then forget what was answered before."""
    monkeypatch.setattr(bodies, "_WHOLE_BODY", 0.2)
    loop, url, parts = asyncio.get_running_loop(), httpx.URL(service.url), list[bytes]()
    with socket.socket() as sender:
        sender.setblocking(False)
        await loop.sock_connect(sender, (url.host, url.port))
        await loop.sock_sendall(sender, upload(service, 50_000))

        async def receive() -> None:
            with suppress(ConnectionResetError):
                while part := await loop.sock_recv(sender, 65_536):
                    parts.append(part)

        async with asyncio.timeout(120):
            receiving = asyncio.create_task(receive())
            while not receiving.done():
                with suppress(ConnectionError):
                    await loop.sock_sendall(sender, b" ")
                await asyncio.wait({receiving}, timeout=0.02)
    answered = b"".join(parts)
    assert answered.startswith(b"HTTP/1.1 408 ")
    assert b"urn:precis:problem:request-timeout" in answered
    assert await rows(service.runtime, "select 1 from chats") == []


HALF = {
    "nothing": b"",
    "a head that drips": START,
    "lines before a head": b"\r\n",
    "a second head": WHOLE + START,
    "the body of a request that is answered": START + b"Content-Length: 1000000\r\n\r\n{",
}


@pytest.mark.parametrize("sent", HALF.values(), ids=HALF)
async def test_a_client_has_a_time_for_its_head_and_for_the_rest_of_a_request_that_is_answered(
    service: Service, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "_PATIENCE", 0.2)
    async with line(service) as sender:
        await sender.send(sent)
        closed = asyncio.create_task(sender.reader.read())
        while not closed.done():
            with suppress(ConnectionError):
                await sender.send(sent and (b"\n" if sent == b"\r\n" else b"X"))
            await asyncio.wait({closed}, timeout=0.02)


async def test_a_body_that_is_read_and_an_answer_that_is_made_need_no_such_haste(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_PATIENCE", 0.01)
    monkeypatch.setattr(bodies, "_WHOLE_BODY", 0.5)
    async with line(service) as sender:
        await sender.send(upload(service, 50_000))

        answer = await sender.answer()
        assert (answer.status, answer.fields["connection"]) == (408, "close")
        assert await sender.reader.read() == b""


async def is_welcome(service: Service) -> bool:
    async with line(service) as another:
        try:
            await another.send(WHOLE)
            return (await another.answer()).status == 200
        except (ConnectionError, asyncio.IncompleteReadError):
            return False


async def test_connections_are_bounded_and_those_that_are_open_go_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MOST", 3)
    async with serving(settings) as service:
        async with AsyncExitStack() as stack:
            asks, *_ = [await stack.enter_async_context(line(service)) for _ in range(3)]
            for _ in range(20):
                assert not await is_welcome(service)
            await asks.send(WHOLE)
            assert (await asks.answer()).status == 200

        await until(partial(is_welcome, service))
