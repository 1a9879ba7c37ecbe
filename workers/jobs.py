"""The jobs that arq runs: work on the chat whose turn it is, and sweeps.

Their context holds the worker's `context` and the `queue`.
"""

from dataclasses import asdict
from typing import Any

import structlog

from service.storage import work
from service.usecases.compress import WorkerContext, compress
from service.usecases.retain import remove_expired, remove_old

_RINGS = 20  # of one sweep; each chat that is done rings for the next

log = structlog.get_logger(__name__)


async def work_off(ctx: dict[str, Any]) -> None:
    """The job: the work of the chat whose turn it is; then another ring, for whoever is next."""
    worked = await compress(ctx["context"])
    if worked:
        await ctx["queue"].wake()
    if worked and worked.again:
        await ctx["queue"].wake(delay=worked.again)


async def sweep(ctx: dict[str, Any]) -> None:
    """Rings for due work that nobody was woken for: a lost ring, a dead worker, a back-off that is over.

    And removes the chats that have expired.
    """
    async with ctx["context"].engine.connect() as connection:
        waiting = await work.waiting(connection, _RINGS)
    for _ in range(waiting):
        await ctx["queue"].wake()
    if waiting:
        log.info("sweep.rang", times=waiting)
    if removed := await remove_expired(ctx["context"].engine):
        log.info("sweep.removed_expired", chats=removed)


async def remove(ctx: dict[str, Any]) -> None:
    """Removes what is older than the settings allow."""
    context: WorkerContext = ctx["context"]
    if context.settings.retention:
        removed = asdict(await remove_old(context.engine, context.settings))
        if any(removed.values()):
            log.info("retention.removed", **removed)
