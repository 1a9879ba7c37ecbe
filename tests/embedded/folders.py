"""Data folders of both servers: what runs in one, what it remembers, and services that use it."""

import asyncio
import json
import os
import pwd
import signal
import sys
from dataclasses import dataclass
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


@dataclass
class Service:
    """A `running_service.py` in its own process."""

    process: asyncio.subprocess.Process

    async def says(self) -> dict[str, str]:
        assert self.process.stdout
        line = await asyncio.wait_for(self.process.stdout.readline(), 120)
        facts: dict[str, str] = json.loads(line)
        return facts

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        await self.process.communicate()


class Launcher:
    def __init__(self) -> None:
        self._started: list[Service] = []

    async def __call__(self, data_dir: Path, *more: str) -> Service:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(REPOSITORY / "tests/embedded/running_service.py"),
            str(data_dir),
            *more,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=ENVIRONMENT,
        )
        self._started.append(Service(process))
        return self._started[-1]

    async def close(self) -> None:
        for service in self._started:
            await service.close()


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))
