"""The entry to this package: a data folder in, the URLs of two running servers out."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from service.embedded import postgres, valkey
from service.embedded.account import check_reachable, choose_account
from service.embedded.folder import claim_folder
from service.embedded.process import Server
from service.embedded.urls import CLUSTER, Urls
from service.errors import EmbeddedServerError


@contextlib.asynccontextmanager
async def run_embedded_servers(data_dir: Path, *, fast: bool = False) -> AsyncIterator[Urls]:
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
                f"The data folder {data_dir} cannot be used: {error}."
            ) from error
        yield urls


async def _start(stack: contextlib.AsyncExitStack, data_dir: Path, *, fast: bool) -> Urls:
    # Everything that can be refused is refused before the first change to the folder.
    folder = await asyncio.to_thread(_check, data_dir)
    await stack.enter_async_context(claim_folder(folder))
    database, database_url = await stack.enter_async_context(
        postgres.run_postgres(folder, fast=fast)
    )
    queue, queue_url = await stack.enter_async_context(valkey.run_valkey(folder, fast=fast))
    died = asyncio.create_task(_wait_for_death(database, queue))
    stack.callback(died.cancel)  # before the servers are stopped
    return Urls(database_url, queue_url, died)


def _check(data_dir: Path) -> Path:
    """Return where the folder really is, after every check that needs no change to it."""
    folder = data_dir.resolve()
    cluster = folder / CLUSTER
    check_reachable(folder, choose_account(cluster))
    postgres.check_cluster(cluster)
    return folder


async def _wait_for_death(*servers: Server) -> EmbeddedServerError:
    """Wait until a server ends, and return what to say about it."""
    ends = [asyncio.create_task(server.died()) for server in servers]
    try:
        ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
    return ended.pop().result()
