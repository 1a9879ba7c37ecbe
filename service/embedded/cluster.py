"""PostgreSQL's files on disk: recognised, or made completely, or not made at all.

A new cluster grows in `postgres.new` beside its place and gets its name when it is complete, with
the role and the database in it. So the cluster is never half-made, and what is in `postgres.new`
never served anybody and may always be removed.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import psutil

from service.embedded.account import give
from service.embedded.folder import make_private
from service.embedded.process import Program, run
from service.embedded.secret import password
from service.errors import EmbeddedServerError

MAJOR = "18"  # of the wheel that pyproject.toml pins
ROLE = DATABASE = "precis"
UNFINISHED = "postgres.new"

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


def check(data: Path) -> bool:
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


async def ensure(data: Path, postgres: Program, *, fast: bool) -> str:
    """Make the cluster unless it is there; return the password of its role."""
    is_made = await asyncio.to_thread(check, data)
    file = data.with_name("postgres.password")  # not in a cluster that another user may own
    if is_made and not await asyncio.to_thread(file.is_file):
        raise EmbeddedServerError(
            f"{file}, the password of the database in {data}, is missing. Put it back."
        )
    # The password first: a cluster that has its name without one could not be used any more.
    secret = await asyncio.to_thread(password, file)
    if not is_made:
        await _make(data, postgres, secret, fast=fast)
    return secret


def remove_stale_pid(data: Path) -> None:
    """Remove the pid file of a killed PostgreSQL if its number now belongs to another program.

    PostgreSQL would take that program for itself and refuse to start. The caller knows that no
    server works in this folder. When no program has the number, PostgreSQL removes the file itself,
    more carefully.
    """
    file = data / "postmaster.pid"
    with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
        if psutil.pid_exists(int(file.read_text().splitlines()[0])):
            file.unlink()


async def _make(data: Path, postgres: Program, secret: str, *, fast: bool) -> None:
    alone = replace(postgres, stop=signal.SIGTERM)
    initdb = replace(alone, name="initdb", binary=postgres.binary.with_name("initdb"))
    folder = data.parent
    unfinished = folder / UNFINISHED
    sql = (
        f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{secret}';\n"
        f"CREATE DATABASE {DATABASE} OWNER {ROLE};\n"
    )
    await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)  # of a killed start
    try:
        await asyncio.to_thread(make_private, unfinished)
        await asyncio.to_thread(give, unfinished, postgres.account)
        await run(initdb, ("-D", unfinished, *INITDB), folder)
        arguments = (*SINGLE_USER, "-D", unfinished, "postgres")
        await run(alone, arguments, folder, given=sql.encode())
        if not fast:
            await asyncio.to_thread(os.sync)
        await asyncio.to_thread(unfinished.rename, data)
        if not fast:
            await asyncio.to_thread(os.sync)
    finally:
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
