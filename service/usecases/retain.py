"""Use case: remove what is older than the settings allow, of all tenants, and count it by kind.

Workers run it once an hour, operators manually. Chats that have expired are removed at every sweep,
whatever the settings say, because that was promised to their users. Two at once do no harm: each
skips what the other has locked.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics
from service.settings import Settings
from service.storage import retention
from service.storage.tables import audit, chats, runs
from service.storage.tenancy import ChatKey

Kept = int | str
"""Days, or `forever`; of texts also `until_covered`."""


@dataclass(frozen=True, slots=True)
class Removed:
    """How many of each kind. `bodies` are texts of messages.

    With a chat, everything stored for it is removed.
    """

    bodies: int
    checkpoints: int
    runs: int
    chats: int
    audit: int


async def remove_old(engine: AsyncEngine, settings: Settings) -> Removed:
    """Removes what is too old.

    Chats are last: what is removed with one counts for its own kind when it is old enough itself.
    """
    removed = Removed(
        bodies=await _bodies(engine, settings.keep_bodies),
        checkpoints=await _checkpoints(engine, settings.keep_checkpoints),
        runs=await _rows(engine, runs, settings.keep_runs),
        chats=await _rows(engine, chats, settings.keep_chats),
        audit=await _rows(engine, audit, settings.keep_audit),
    )
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


async def _rows(engine: AsyncEngine, table: Table, days: Kept) -> int:
    if not isinstance(days, int):
        return 0
    return await _pages(engine, partial(retention.old_rows, table=table, days=days))


async def _bodies(engine: AsyncEngine, days: Kept) -> int:
    if days == "until_covered":
        return await _by_chat(engine, retention.covered_chats, retention.covered_bodies)
    if not isinstance(days, int):
        return 0
    return await _pages(engine, partial(retention.old_bodies, days=days))


async def _checkpoints(engine: AsyncEngine, days: Kept) -> int:
    if not isinstance(days, int):
        return 0
    look = partial(retention.lost_chats, days=days)
    drop = partial(retention.lost_checkpoints, days=days)
    return await _by_chat(engine, look, drop)


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
    look: Callable[[AsyncConnection], Awaitable[set[ChatKey]]],
    drop: Callable[[AsyncConnection, ChatKey], Awaitable[int]],
) -> int:
    """One transaction for each chat that `look` finds."""
    async with engine.connect() as connection:
        found = await look(connection)
    count = 0
    for chat in found:
        async with engine.begin() as connection:
            count += await drop(connection, chat)
    return count
