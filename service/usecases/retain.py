"""Use case: remove what is older than the settings allow, of all tenants, and count it by kind.

Workers run it once an hour, operators manually. Chats that have expired are removed at every sweep,
whatever the settings say, because that was promised to their users. Two at once do no harm: each
skips what the other has locked.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial

from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics
from service.settings import Settings
from service.storage import retention
from service.storage.tables import audit, chats, runs
from service.storage.tenancy import ChatKey

Kept = int | str
"""Days, or `forever`."""


@dataclass(frozen=True, slots=True)
class Removed:
    """How many of each kind. `bodies` are texts of messages, `sums` rows of daily figures.

    With a chat, everything stored for it is removed.
    """

    bodies: int
    checkpoints: int
    runs: int
    chats: int
    audit: int
    sums: int


@dataclass(frozen=True, slots=True)
class _Sweep:
    engine: AsyncEngine
    dry: bool


async def remove_old(engine: AsyncEngine, settings: Settings, *, dry: bool = False) -> Removed:
    """Removes what is too old; a `dry` round only counts.

    Chats are last, so that a dry round counts the same as a real one: what is removed with a chat
    counts for its own kind when it is old enough itself.
    """
    this = _Sweep(engine, dry)
    covered = settings.keep_bodies == "until_covered"
    bodies = _covered_bodies(this) if covered else _old_bodies(this, settings.keep_bodies)
    removed = Removed(
        bodies=await bodies,
        checkpoints=await _lost_checkpoints(this, settings.keep_checkpoints),
        runs=await _old_rows(this, runs, settings.keep_runs),
        chats=await _old_rows(this, chats, settings.keep_chats),
        audit=await _old_rows(this, audit, settings.keep_audit),
        sums=await _old_sums(this, settings.keep_sums),
    )
    if not dry:
        for kind, number in asdict(removed).items():
            metrics.DELETED.labels(kind).inc(number)
    return removed


async def remove_expired(engine: AsyncEngine) -> int:
    """Removes the chats that have expired, and past tombstones; returns how many chats."""
    async with engine.begin() as connection:
        await retention.past_tombstones(connection)
    count = 0
    while True:
        async with engine.begin() as connection:
            page = await retention.expired_chats(connection)
        metrics.DELETED.labels("chats").inc(page)
        if not page:
            return count
        count += page


async def _old_rows(this: _Sweep, table: Table, days: Kept) -> int:
    if not isinstance(days, int):
        return 0
    count, after = 0, 0
    while True:
        async with this.engine.begin() as connection:
            ids = await retention.old_rows(connection, table, days, after, dry=this.dry)
        if not ids:
            return count
        count, after = count + len(ids), ids[-1]


async def _old_sums(this: _Sweep, days: Kept) -> int:
    if not isinstance(days, int):
        return 0
    async with this.engine.begin() as connection:
        return await retention.old_sums(connection, days, dry=this.dry)


async def _old_bodies(this: _Sweep, days: Kept) -> int:
    if not isinstance(days, int):
        return 0
    count, after = 0, None
    while True:
        async with this.engine.begin() as connection:
            page = await retention.old_bodies(connection, days, after, dry=this.dry)
        if not page:
            return count
        count, after = count + len(page), page[-1]


async def _covered_bodies(this: _Sweep) -> int:
    return await _by_chat(
        this, retention.covered_chats, partial(retention.covered_bodies, dry=this.dry)
    )


async def _lost_checkpoints(this: _Sweep, days: Kept) -> int:
    if not isinstance(days, int):
        return 0
    look = partial(retention.lost_chats, days=days)
    return await _by_chat(this, look, partial(retention.lost_checkpoints, days=days, dry=this.dry))


async def _by_chat(
    this: _Sweep,
    look: Callable[[AsyncConnection, int], Awaitable[retention.Page]],
    drop: Callable[[AsyncConnection, ChatKey], Awaitable[int]],
) -> int:
    """One transaction for each chat that `look` finds; the chat of two pages is counted once."""
    count, after, seen = 0, 0, set[ChatKey]()
    while True:
        async with this.engine.connect() as connection:
            found, last = await look(connection, after)
        for chat in found - seen:
            async with this.engine.begin() as connection:
                count += await drop(connection, chat)
        seen |= found
        if last is None:
            return count
        after = last
