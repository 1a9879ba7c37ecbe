"""Use case: remove what is older than the settings allow, of all tenants, and count it by kind.

Workers run it once an hour, operators manually. Chats that have expired are removed at every sweep,
whatever the settings say, because that was promised to their users. Two at once do no harm: each
skips what the other has locked.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics
from service.settings import Days, Settings
from service.storage import maintenance


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """The number of removed rows by kind. `bodies` are texts of messages.

    With a chat, everything stored for it is removed.
    """

    bodies: int = 0
    checkpoints: int = 0
    runs: int = 0
    chats: int = 0
    audit: int = 0


async def remove_old(engine: AsyncEngine, settings: Settings) -> RemovedRows:
    """Removes what is too old.

    Chats are last: what is removed with one counts for its own kind when it is old enough itself.
    """
    texts, history = settings.keep_bodies, settings.keep_history
    removed = RemovedRows(
        bodies=await _remove(engine, maintenance.delete_old_texts, texts),
        checkpoints=await _remove(engine, maintenance.delete_retired_checkpoints, texts),
        runs=await _remove(engine, maintenance.delete_old_runs, history),
        audit=await _remove(engine, maintenance.delete_old_audit_rows, history),
        chats=await _remove(engine, maintenance.delete_old_chats, settings.keep_chats),
    )
    for kind, number in asdict(removed).items():
        metrics.DELETED.labels(kind).inc(number)
    return removed


async def remove_expired(engine: AsyncEngine) -> int:
    """Removes the chats that have expired, and past tombstones; returns how many chats."""
    async with engine.begin() as connection:
        await maintenance.delete_past_tombstones(connection)
    count = await _remove_pages(engine, maintenance.delete_expired_chats)
    metrics.DELETED.labels("chats").inc(count)
    return count


async def _remove(
    engine: AsyncEngine, remove_page: Callable[[AsyncConnection, int], Awaitable[int]], days: Days
) -> int:
    if days == "forever":
        return 0
    return await _remove_pages(engine, lambda connection: remove_page(connection, days))


async def _remove_pages(
    engine: AsyncEngine, remove_page: Callable[[AsyncConnection], Awaitable[int]]
) -> int:
    """Removes page after page, each in a transaction of its own; returns how much that was."""
    total = 0
    while True:
        async with engine.begin() as connection:
            removed = await remove_page(connection)
        if not removed:
            return total
        total += removed
