"""HTTP on loopback by hand, for fake services: they see whole requests, and answer as wrongly as a test wants it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Raw:
    """A request as it came. Header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes


Answer = Callable[[Raw, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]
"""Answers one request; False when the connection is done with."""


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """Listens on a free port of 127.0.0.1 until the block ends, and yields the URL; then open connections are cut.

    What went wrong in `answer` is raised at the end.
    """
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_serve(answer, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        # One that is cancelled before it has begun closes nothing.
        task.add_done_callback(lambda _: writer.close())

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        for result in results:
            if isinstance(result, Exception):
                raise result


async def _serve(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while (request := await _read(reader)) and await answer(request, reader, writer):
            pass
    except ConnectionError:
        pass  # the client went away
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Raw | None:
    """The next request of a connection; None when the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = first.split(" ")
    return Raw(method, path, headers, content)


def head(status: int, length: int, more: Mapping[str, str]) -> bytes:
    """The head of a JSON answer of so many bytes."""
    fields = {"Content-Type": "application/json", "Content-Length": str(length), **more}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Fake\r\n{lines}\r\n".encode()
