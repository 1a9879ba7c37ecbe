"""The jobs that arq runs: work on the chat whose turn it is, sweeps, and retention.

Their context holds `context` (a `WorkerContext`) and `queue`.
"""

from dataclasses import asdict
from typing import Any

import structlog

from service.storage import work
from service.usecases.compress import WorkerContext, compress
from service.usecases.retain import remove_expired, remove_old

_WAKE_UPS = 20  # of one sweep; each chat that is done wakes a worker for the next

log = structlog.get_logger(__name__)


async def work_off(ctx: dict[str, Any]) -> None:
    """The job: the work of the chat whose turn it is; then another wake-up, for the next one."""
    worked = await compress(ctx["context"])
    if worked:
        await ctx["queue"].wake()
    if worked and worked.again:
        await ctx["queue"].wake(delay=worked.again)


async def sweep(ctx: dict[str, Any]) -> None:
    """Wakes workers for due work that nobody was woken for, and removes expired chats.

    A wake-up was lost, a worker died, or a back-off is over.
    """
    async with ctx["context"].engine.connect() as connection:
        waiting = await work.waiting(connection, _WAKE_UPS)
    for _ in range(waiting):
        await ctx["queue"].wake()
    if waiting:
        log.info("sweep.woke", times=waiting)
    if removed := await remove_expired(ctx["context"].engine):
        log.info("sweep.removed_expired", chats=removed)


async def remove(ctx: dict[str, Any]) -> None:
    """Removes what is older than the settings allow."""
    context: WorkerContext = ctx["context"]
    if context.settings.retention:
        removed = asdict(await remove_old(context.engine, context.settings))
        if any(removed.values()):
            log.info("retention.removed", **removed)
