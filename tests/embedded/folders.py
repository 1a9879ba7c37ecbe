"""Data folders of both servers: what runs in one, what it remembers, and services that use it."""

import asyncio
import os
import pwd
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from redis.asyncio import Redis

from service.embedded.urls import Urls

AS_ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody").pw_uid if AS_ROOT else os.geteuid()
REPOSITORY = Path(__file__).parents[2]
SITE_PACKAGES = Path(asyncpg.__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{SITE_PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1"}


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


@asynccontextmanager
async def launched(data_dir: Path, *more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A `running_service.py` in its own process, killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(REPOSITORY / "tests/embedded/running_service.py"), str(data_dir), *more),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=ENVIRONMENT,
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
