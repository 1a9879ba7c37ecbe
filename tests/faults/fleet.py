"""A fleet of real processes on loopback: PostgreSQL, Valkey, API processes, workers.

In: a folder and the number of each. Out: a `Fleet`, whose members can be killed. A member that
ends is started again on the same port and data, as a process supervisor does it. The servers wait for the disk, unlike
those of other tests: what they have acknowledged has to outlive kill -9.

All processes are started through `service/tied.py`, so none of them outlives the harness.
"""

import asyncio
import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx
from redis.asyncio import Redis

from service.embedded import postgres, valkey
from service.embedded.folder import claim_folder
from service.embedded.process import HOST, Program, Server, find_free_port, run_server
from service.errors import EmbeddedServerError
from service.names import FIRST_TENANT
from service.runtime import Urls
from service.settings import Settings, load
from service.storage.database import connect, migrate
from service.storage.keys import create_key
from tests.conftest import connected
from tests.constants import NEVER, precis
from tests.fakes.scripted_llm import ScriptedLLM
from tests.service.encrypted import FIRST

ROOT = Path(__file__).parents[2]
_APIS, _WORKERS = 2, 3
Kind = Literal["worker", "api", "redis", "postgres"]
Run = Callable[[], AbstractAsyncContextManager[Server]]

# The program under test, in a shell-free way to give it an environment; with kill -9 as its way to end, since that is
# what these tests are about.
_ENV = Program("precis", Path(shutil.which("env") or "/usr/bin/env"), None, signal.SIGKILL)
PRECIS = precis(
    debounce=0.1,
    sweep_every=1,
    lease=4,  # of a busy machine with two cores, where a process may have to wait for seconds to get on
    breaker_after=3,
    breaker_pause=1,
    fallback_after=NEVER,  # every summary comes from the scripted model, so that it can be checked
)

SETTINGS = {
    "WINDOW": "8192",  # so that short chats need summaries
    "SUMMARISER": "openai",
    "SUMMARISER_MODEL": "scripted",
    "SUMMARISER_TIMEOUT": "60",
    "ENCRYPTION_KEYS": FIRST,
    "LOG_FORMAT": "json",
}


class Member:
    """One process, kept running from `keep` on."""

    def __init__(self, kind: Kind, run: Run) -> None:
        self.kind = kind
        self.up = asyncio.Event()  # it answers
        self.down = asyncio.Event()
        self.starts = 0
        self._run = run
        self._server: Server | None = None

    async def keep(self) -> None:
        """Starts it, and again whenever it has ended.

        Raises:
            EmbeddedServerError: it did not even start once; with the end of its log.
        """
        while True:
            try:
                async with self._run() as self._server:
                    self.starts += 1
                    self.down.clear()
                    self.up.set()
                    await self._server.died()
            except EmbeddedServerError:
                if not self.starts:
                    raise
                # What it needs is away, or its predecessor is not quite gone: a supervisor's pause.
                await asyncio.sleep(0.05)
            finally:
                self.up.clear()
                self.down.set()

    async def kill(self) -> None:
        """Kill -9, as soon as it is up; returns when it has ended."""
        await self.up.wait()
        assert self._server
        os.kill(self._server.process.pid, signal.SIGKILL)
        await self.down.wait()


@dataclass
class Fleet:
    """The running fleet. `llm` is in the harness' own process."""

    folder: Path
    urls: Urls
    llm: ScriptedLLM
    members: list[Member] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    key: str = ""

    @property
    def settings(self) -> Settings:
        """Settings of a process of the harness that looks at the fleet's data."""
        return load(database_url=self.urls.database, redis_url=self.urls.redis, encryption_keys=FIRST)

    def of(self, kind: Kind) -> list[Member]:
        """All members of a kind."""
        return [member for member in self.members if member.kind == kind]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client, with the filter's key, of all API processes in turn."""
        ports = itertools.cycle(self.ports)

        async def balance(request: httpx.Request) -> None:
            request.url = request.url.copy_with(port=next(ports))

        async with httpx.AsyncClient(
            base_url=f"http://{HOST}",
            headers={"Authorization": f"Bearer {self.key}"},
            event_hooks={"request": [balance]},
            timeout=120,
            trust_env=False,
        ) as client:
            yield client

    async def rows(self, query: str) -> list[Any]:
        """What the database says, asked over a connection of its own."""
        await self.of("postgres")[0].up.wait()
        async with connected(self.urls.database) as connection:
            return list(await connection.fetch(query))

    async def flush(self) -> None:
        """Redis forgets everything."""
        async with Redis.from_url(self.urls.redis) as redis:
            await redis.flushall()

    async def converged(self) -> bool:
        """Whether nothing is due."""
        return not await self.rows("select 1 from chats where due_at is not null")

    @asynccontextmanager
    async def kept(self, *members: Member) -> AsyncIterator[None]:
        """These members run, and are the fleet's, while the context is open."""
        self.members += members
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(member.keep()) for member in members]
            for member in members:
                await member.up.wait()
            yield
            for task in tasks:
                task.cancel()

    def api(self, name: str, port: int) -> Member:
        """An API process, not started yet."""
        return Member("api", lambda: self._precis(name, "serve", "--no-worker", "--host", HOST, "--port", str(port)))

    def worker(self, name: str) -> Member:
        """A worker, not started yet."""
        return Member("worker", lambda: self._precis(name, "worker"))

    @asynccontextmanager
    async def _precis(self, name: str, *command: str) -> AsyncIterator[Server]:
        starts = sum(1 for _ in self.folder.glob(f"{name}.*.log"))
        log = self.folder / f"{name}.{starts + 1}.log"  # all are kept: they tell what a killed one did
        arguments = [*_environment(self.urls, self.llm), *PRECIS, *command]
        async with run_server(_ENV, arguments, log, lambda: _greets(log)) as server:
            yield server


@asynccontextmanager
async def fleet(folder: Path, llm: ScriptedLLM) -> AsyncIterator[Fleet]:
    """A running fleet on the data in this folder, which is made when it is missing."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(claim_folder(folder))
        ports = [find_free_port(), find_free_port()]
        made = Fleet(folder, Urls("", ""), llm)
        urls: dict[str, str] = {}
        database = Member("postgres", lambda: _database(folder, ports[0], urls))
        queue = Member("redis", lambda: _queue(folder, ports[1], urls))
        await stack.enter_async_context(made.kept(database, queue))
        made.urls = Urls(urls["database"], urls["redis"])
        made.ports = [find_free_port() for _ in range(_APIS)]
        await migrate(made.urls.database)
        async with connect(made.urls.database) as opened, opened.engine.begin() as connection:
            made.key = await create_key(connection, FIRST_TENANT, "filter", "faults")
        processes = [made.api(f"api-{number}", port) for number, port in enumerate(made.ports, 1)]
        processes += [made.worker(f"worker-{number}") for number in range(1, _WORKERS + 1)]
        await stack.enter_async_context(made.kept(*processes))
        yield made


def _environment(urls: Urls, llm: ScriptedLLM) -> list[str]:
    """As `env` takes it."""
    ours = SETTINGS | {"DATABASE_URL": urls.database, "REDIS_URL": urls.redis, "SUMMARISER_URL": llm.openai_url}
    return [*(f"PRECIS_{name}={value}" for name, value in ours.items()), f"PYTHONPATH={ROOT}", "COLUMNS=200"]


@asynccontextmanager
async def _database(folder: Path, port: int, urls: dict[str, str]) -> AsyncIterator[Server]:
    async with postgres.run_postgres(folder, port, fast=False) as (server, urls["database"]):
        yield server


@asynccontextmanager
async def _queue(folder: Path, port: int, urls: dict[str, str]) -> AsyncIterator[Server]:
    async with valkey.run_valkey(folder, port, fast=False) as (server, urls["redis"]):
        yield server


async def _greets(log: Path) -> bool:
    """What it says when it has opened everything."""
    return ", summaries by " in await asyncio.to_thread(log.read_text, errors="replace")
