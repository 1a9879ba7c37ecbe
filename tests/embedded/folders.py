"""Data folders of both servers: what runs in one, what it remembers, and services that use it."""

import asyncio
import os
import pwd
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import click
from redis.asyncio import Redis

from service.embedded.servers import run_embedded_servers
from service.embedded.urls import Urls
from service.errors import EmbeddedServerError

AS_ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody").pw_uid if AS_ROOT else os.geteuid()


async def remember(servers: Urls, what: str) -> None:
    connection = await database(servers.database)
    await connection.execute("CREATE TABLE IF NOT EXISTS notes (text text)")
    await connection.execute("INSERT INTO notes VALUES ($1)", what)
    await connection.close()
    async with Redis.from_url(servers.redis) as queue:
        await queue.set("note", what)


async def remembered(servers: Urls) -> list[str]:
    connection = await database(servers.database)
    rows = await connection.fetch("SELECT text FROM notes")
    await connection.close()
    async with Redis.from_url(servers.redis, decode_responses=True) as queue:
        return [row["text"] for row in rows] + [str(await queue.get("note"))]


async def database(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    return await asyncpg.connect(url.replace("+asyncpg", ""))


def run(data_dir: Path, largest_file: int | None) -> None:
    """Runs the servers until its standard input ends, and says in a line that they run, or why they do not."""

    async def servers() -> None:
        try:
            async with run_embedded_servers(data_dir, fast=True):
                click.echo("They run.")
                await asyncio.to_thread(sys.stdin.read)
        except EmbeddedServerError as error:
            click.echo(error)

    if largest_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    asyncio.run(servers())


@asynccontextmanager
async def launched(data_dir: Path, largest_file: int | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """A service that does nothing but run its servers, in its own process, killed at the end."""
    program = f"from tests.embedded.folders import Path, run; run(Path({str(data_dir)!r}), {largest_file})"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: asyncio.subprocess.Process) -> str:
    """Its only line."""
    assert process.stdout
    return (await asyncio.wait_for(process.stdout.readline(), 120)).decode()


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))
