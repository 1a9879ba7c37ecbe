"""A way by TLS to PostgreSQL for programs that speak none: its address in, a Unix socket out.

The programs of PostgreSQL that come with the package are built without OpenSSL.
"""

import asyncio
import contextlib
import socket
import struct
import tempfile
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator

from service import tls
from service.errors import ConfigurationError
from service.tls import Reached

PORT = 5432  # part of the socket's name
_TLS_REQUEST = struct.pack("!ii", 8, 80877103)  # PostgreSQL's protocol: its length, and SSLRequest
_HEAD = struct.Struct("!ci")  # of a message: its kind, and its length without the kind
_LENGTH = 4  # bytes of that number, which it counts
_OTHER_VERSION = b"v"
# A password that is bound to the TLS in which it is given.
_BOUND = b"SCRAM-SHA-256-PLUS\0"
_PATIENCE = 10.0  # seconds until a server has to have answered
_PIECE = 2**16  # bytes


@contextlib.asynccontextmanager
async def tunnel(reached: Reached) -> AsyncIterator[str]:
    """A folder of this user's own with a socket for libpq, each connection to which goes by TLS.

    Raises:
        ConfigurationError: the server does not speak TLS, or is not who it should be.
    """
    # Tried once before: a program would only learn that its connection was closed.
    _, tried = await _opened(reached)
    tried.close()
    carrying: set[asyncio.Task[None]] = set()

    def accept(near: StreamReader, to_near: StreamWriter) -> None:
        task = asyncio.create_task(_carry(reached, near, to_near))
        carrying.add(task)

    with tempfile.TemporaryDirectory(prefix="precis-") as folder:
        server = await asyncio.start_unix_server(accept, f"{folder}/.s.PGSQL.{PORT}")
        try:
            yield folder
        finally:
            server.close()
            for task in carrying:
                task.cancel()
            await asyncio.gather(*carrying, return_exceptions=True)


async def _carry(reached: Reached, near: StreamReader, to_near: StreamWriter) -> None:
    """One connection, until either end closes it."""
    try:
        far, to_far = await _opened(reached)
        ways = {asyncio.create_task(_pump(near, to_far)), asyncio.create_task(_back(far, to_near))}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_far.close()  # sends what is written
    finally:
        to_near.close()


async def _back(far: StreamReader, to_near: StreamWriter) -> None:
    """What a server says: first how it wants to be convinced of who asks."""
    # libpq takes the offer of a bound password over what it thinks plain for an attack, and ends.
    # The server goes on offering the one that is not bound, and who it is has been checked here.
    kind = _OTHER_VERSION
    while kind == _OTHER_VERSION:
        kind, length = _HEAD.unpack(await far.readexactly(_HEAD.size))
        body = (await far.readexactly(length - _LENGTH)).replace(_BOUND, b"")
        to_near.write(_HEAD.pack(kind, len(body) + _LENGTH) + body)
    await _pump(far, to_near)


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()


async def _opened(reached: Reached) -> tuple[StreamReader, StreamWriter]:
    try:
        plain = await asyncio.to_thread(_asked, reached.host, reached.port)
        return await asyncio.open_connection(
            sock=plain, ssl=reached.context, server_hostname=reached.host
        )
    except OSError as error:
        at = f"PostgreSQL at {reached.host}:{reached.port}"
        why = tls.refusal(error, reached) or f"there is no connection by TLS with {at}: {error}"
        raise ConfigurationError(why) from error


def _asked(host: str, port: int) -> socket.socket:
    """A connection whose server is ready for a TLS handshake."""
    plain = socket.create_connection((host, port), _PATIENCE)
    try:
        plain.sendall(_TLS_REQUEST)
        # One byte and no more: what somebody on the way adds belongs to the handshake, and fails.
        if plain.recv(1) != b"S":
            raise ConnectionError("it does not speak TLS")
        plain.setblocking(False)
    except BaseException:
        plain.close()
        raise
    return plain
