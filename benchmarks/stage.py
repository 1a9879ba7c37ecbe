"""What benchmarks stand on: servers, databases, processes, and the service's own functions. The rest calls only these.

Servers are those of `TEST_DATABASE_URL` and `TEST_REDIS_URL`, else the embedded ones in a folder that is thrown away.
The embedded PostgreSQL does not wait for the disk, so that ratios are those of the code, unless it is told to.
"""

import asyncio
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import asyncpg
import psutil
from sqlalchemy import make_url

from benchmarks.conversation import Message
from service.embedded.servers import run_embedded_servers
from service.names import FIRST_TENANT
from service.planning import policy
from service.processes import Texts
from service.request.account import Counts
from service.request.native import Node
from service.runtime import Runtime, Urls
from service.settings import load
from service.storage import chats, contexts, keys
from service.storage import work as due_work
from service.storage.contexts import Lookup, StoredContext
from service.storage.database import Database, connect, migrate
from service.storage.tables import ChatKey
from service.summarising import message
from service.summarising.message import Parts
from service.usecases.compress import compress
from service.usecases.hand_over import FinishedTurn, hand_over_turn
from service.usecases.uploads import UploadQueue
from service.usecases.weigh import ServeContext, State
from service.usecases.windows import Windows

MODEL = "benchmark"
ROOT = Path(__file__).parents[1]
due_work.DEBOUNCE = 0.0  # what is measured is the work, and not the wait for it


@asynccontextmanager
async def servers(*, fast: bool = True) -> AsyncIterator[Urls]:
    """A PostgreSQL and a Valkey."""
    if "TEST_DATABASE_URL" in os.environ:
        yield Urls(os.environ["TEST_DATABASE_URL"], os.environ["TEST_REDIS_URL"])
        return
    folder = _folder()
    try:
        async with run_embedded_servers(folder / "data", fast=fast) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="precis-bench-"))
    folder.chmod(0o711)  # as root, the servers run as another user, who must get there
    return folder


@asynccontextmanager
async def database(urls: Urls) -> AsyncIterator[Urls]:
    """A migrated database of one's own, dropped at the end."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    await execute(urls.database, f"create database {name}")
    try:
        made = make_url(urls.database).set(database=name).render_as_string(hide_password=False)
        await migrate(made)
        yield Urls(made, urls.redis)
    finally:
        await execute(urls.database, f"drop database {name} with (force)")


@asynccontextmanager
async def plain(url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection for plain SQL, with as much time as it takes."""
    connection = await asyncpg.connect(make_url(url).set(drivername="postgresql").render_as_string(hide_password=False))
    try:
        yield connection
    finally:
        await connection.close()


async def execute(url: str, *statements: str) -> None:
    """Runs statements, each in a transaction of its own."""
    async with plain(url) as connection:
        for statement in statements:
            await connection.execute(statement)


async def filter_key(url: str) -> tuple[str, int]:
    """A new filter key, and its tenant's id."""
    async with connect(url) as opened, opened.engine.begin() as connection:
        key = await keys.create_key(connection, FIRST_TENANT, "filter", "benchmark")
        found = await keys.find_valid_key(connection, key)
    assert found
    return key, found.tenant


@asynccontextmanager
async def process(*arguments: str, urls: Urls | None = None, **settings: str) -> AsyncIterator[int]:
    """A Python process that prints its address on 127.0.0.1; gives its port. `settings` are variables for it."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PRECIS_")}
    ours = {"PRECIS_LOG_LEVEL": "error", "PRECIS_PORT": "0"} | settings
    if urls:
        ours |= {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis}
    started = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=outside | ours, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert started.stdout
        async with asyncio.timeout(60):
            while line := (await started.stdout.readline()).decode():
                if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                    break
            else:
                raise RuntimeError(f"{arguments} ended before it listened")
        yield int(found[1])
    finally:
        if started.returncode is None:
            started.terminate()
        await started.wait()


def service(urls: Urls, **settings: str) -> AbstractAsyncContextManager[int]:
    """The service on these servers, without a worker."""
    return process("-c", "from service.cli import app; app()", "serve", "--no-worker", urls=urls, **settings)


def listener(port: int) -> psutil.Process:
    """Our child that listens on this port."""
    for child in psutil.Process().children():
        if any(one.laddr.port == port for one in child.net_connections("tcp") if one.status == psutil.CONN_LISTEN):
            return child
    raise RuntimeError(f"no child of this process listens on port {port}")


async def find(
    database: Database, tenant: int, chat: str, path: Sequence[Node], size: int, window: int
) -> StoredContext | None:
    """The hot read, through the service's own pool, for a request of `size` tokens."""
    limit = policy.apply_at(window)
    return await contexts.find_context(database, Lookup(tenant, chat, MODEL, size, limit, window), path)


async def note_leaves(url: str, tenant: int, written: Sequence[int]) -> None:
    """Does for chats that were written behind the service's back what a hand-over does at its end."""
    async with connect(url) as opened, opened.engine.begin() as connection:
        for chat in written:
            await chats.note_leaf(connection, ChatKey(tenant, chat))


def summary(state: str, covered: int) -> str:
    """The summary message for a state of one line."""
    return message.render(Parts(state=(state,)), covered, 1_790_000_000)


async def ingest_into(
    database: Database, texts: Texts, tenant: int, chat: str, path: Sequence[Message], window: int
) -> bool:
    """Stores a whole branch in this process, and wakes nobody."""
    uploads, settings = UploadQueue(), load()
    windows = Windows(database, settings)
    context = ServeContext(database, texts, Counts(), settings, uploads, windows, wake=_nobody)
    state = State(chat, "user", MODEL, window)
    rows = [one.stored for one in path]
    outcome = await hand_over_turn(context, FinishedTurn(tenant, state, rows, is_branch=True))
    return outcome.due


async def _nobody(_key: str, _delay: float) -> None:
    """Wakes no worker."""


async def work(runtime: Runtime) -> None:
    """Does all work that is due, without a worker."""
    while await compress(runtime.worker_context):
        pass
