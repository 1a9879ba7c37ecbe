"""Use case: remove what is older than the settings allow, of all tenants, and count it by kind.

Workers run it once an hour, operators manually. Chats that have expired are removed at every sweep,
whatever the settings say, because that was promised to their users. Two at once do no harm: each
skips what the other has locked.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics
from service.settings import Settings
from service.storage import retention
from service.storage.tables import audit, chats, runs
from service.storage.tenancy import ChatKey


@dataclass(slots=True)
class Removed:
    """How many of each kind. `bodies` are texts of messages, `sums` rows of daily figures.

    With a chat, everything stored for it is removed.
    """

    bodies: int = 0
    checkpoints: int = 0
    runs: int = 0
    chats: int = 0
    audit: int = 0
    sums: int = 0


async def remove_old(engine: AsyncEngine, settings: Settings) -> Removed:
    """Removes what is too old.

    Chats are last: what is removed with one counts for its own kind when it is old enough itself.
    """
    removed = Removed()
    days = settings.keep_bodies
    if days != "forever":
        removed.bodies = await _by_chat(
            engine, days, retention.chats_with_old_texts, retention.old_texts
        )
        removed.checkpoints = await _by_chat(
            engine, days, retention.chats_with_lost_checkpoints, retention.lost_checkpoints
        )
    days = settings.keep_history
    if days != "forever":
        removed.runs = await _pages(engine, partial(retention.old_rows, table=runs, days=days))
        removed.audit = await _pages(engine, partial(retention.old_rows, table=audit, days=days))
        async with engine.begin() as connection:
            removed.sums = await retention.old_sums(connection, days)
    days = settings.keep_chats
    if days != "forever":
        removed.chats = await _pages(engine, partial(retention.old_rows, table=chats, days=days))
    for kind, number in asdict(removed).items():
        metrics.DELETED.labels(kind).inc(number)
    return removed


async def remove_expired(engine: AsyncEngine) -> int:
    """Removes the chats that have expired, and past tombstones; returns how many chats."""
    async with engine.begin() as connection:
        await retention.past_tombstones(connection)
    count = await _pages(engine, retention.expired_chats)
    metrics.DELETED.labels("chats").inc(count)
    return count


async def _pages(
    engine: AsyncEngine, drop: Callable[[AsyncConnection, Any], Awaitable[Sequence[object]]]
) -> int:
    """One transaction for each page that `drop` removes behind the last row of the one before."""
    count, after = 0, None
    while True:
        async with engine.begin() as connection:
            page = await drop(connection, after)
        if not page:
            return count
        count, after = count + len(page), page[-1]


async def _by_chat(
    engine: AsyncEngine,
    days: int,
    find: Callable[[AsyncConnection, int], Awaitable[set[ChatKey]]],
    drop: Callable[[AsyncConnection, ChatKey, int], Awaitable[int]],
) -> int:
    """One transaction for each chat that `find` finds."""
    async with engine.connect() as connection:
        found = await find(connection, days)
    count = 0
    for chat in found:
        async with engine.begin() as connection:
            count += await drop(connection, chat, days)
    return count
