"""The entry to this package: a data folder in, the URLs of two running servers out."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from service.embedded import cluster, postgres, valkey
from service.embedded.account import account_for, check_reachable
from service.embedded.folder import claimed, room
from service.embedded.process import Server
from service.embedded.urls import CLUSTER, Urls
from service.errors import EmbeddedServerError

log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def embedded_servers(data_dir: Path, *, fast: bool = False) -> AsyncIterator[Urls]:
    """Run both servers while the context is open, and stop both when it closes.

    Enter it in a thread that lives as long as the service (the main one): see `process.py`.

    Args:
        data_dir: Used by nobody else. Made when missing; its parents are never changed.
        fast: For tests and demos only: nothing waits for the disk, and a power cut or a crash of
            the machine may destroy the whole data folder.

    Raises:
        EmbeddedServerError: with what to do about it. Nothing is left running, nothing is lost.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            urls = await _start(stack, data_dir, fast=fast)
        except OSError as error:
            raise EmbeddedServerError(
                f"The data folder {data_dir} cannot be used: {error}.{_room(data_dir)}"
            ) from error
        yield urls


async def _start(stack: contextlib.AsyncExitStack, data_dir: Path, *, fast: bool) -> Urls:
    # Everything that can be refused is refused before the first change to the folder.
    folder = await asyncio.to_thread(_checked, data_dir)
    await stack.enter_async_context(claimed(folder))
    database = await stack.enter_async_context(postgres.running(folder, fast=fast))
    queue = await stack.enter_async_context(valkey.running(folder, fast=fast))
    died: asyncio.Future[EmbeddedServerError] = asyncio.get_running_loop().create_future()
    for server in (database.server, queue.server):
        await stack.enter_async_context(_watched(server, died))
    return Urls(database.url, queue.url, died)


def _checked(data_dir: Path) -> Path:
    """Return where the folder really is, after every check that needs no change to it."""
    folder = data_dir.resolve()
    data = folder / CLUSTER
    check_reachable(folder, account_for(data))
    cluster.check(data)
    return folder


@contextlib.asynccontextmanager
async def _watched(
    server: Server, died: asyncio.Future[EmbeddedServerError]
) -> AsyncIterator[None]:
    """Report the end of a server in `died` while the context is open.

    It closes before the server is stopped, so an end that we cause is not reported.
    """

    async def watch() -> None:
        error = await server.died()
        log.error("embedded_server_died", error=str(error))
        if not died.done():
            died.set_result(error)

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _room(data_dir: Path) -> str:
    return room(data_dir) if data_dir.is_dir() else ""
