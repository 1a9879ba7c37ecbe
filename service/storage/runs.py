"""Runs: one row for each round of work, so that operators see what was read, written, rejected, and why."""

from typing import cast

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import runs
from service.storage.tenancy import ChatKey, of

TOO_HARD = "too hard"
"""The outcome of a round that ended because work on a text took too long or too much memory."""


async def begin(connection: AsyncConnection, chat: ChatKey, seq: int) -> int:
    """Notes that a round has begun."""
    query = insert(runs).values(**chat.columns, seq=seq).returning(runs.c.id)
    return cast(int, (await connection.execute(query)).scalar_one())


async def before(connection: AsyncConnection, chat: ChatKey, run: int) -> str | None:
    """How the round before this one ended; None when there was none."""
    query = select(runs.c.outcome).where(*of(chat, runs), runs.c.id < run)
    found = await connection.execute(query.order_by(runs.c.id.desc()).limit(1))
    return found.scalar_one_or_none()


async def count(
    connection: AsyncConnection,
    chat: ChatKey,
    run: int,
    read: int,
    written: int,
    *,
    published: bool,
) -> None:
    """Adds one summariser call, and the tokens that it read and wrote, to a round."""
    await connection.execute(
        update(runs)
        .where(*of(chat, runs), runs.c.id == run)
        .values(
            calls=runs.c.calls + 1,
            tokens_read=runs.c.tokens_read + read,
            tokens_written=runs.c.tokens_written + written,
            published=runs.c.published + int(published),
        )
    )


async def end(
    connection: AsyncConnection,
    chat: ChatKey,
    run: int,
    outcome: str,
    reason: str = "",
    markers: int = 0,
) -> None:
    """Notes how a round ended.

    `done`, `nothing to do`, `waits`, `rejected`, `failed`, `too hard`, `refused`, or `released`.
    """
    await connection.execute(
        update(runs)
        .where(*of(chat, runs), runs.c.id == run)
        .values(outcome=outcome, reason=reason, markers=markers, ended_at=func.now())
    )
