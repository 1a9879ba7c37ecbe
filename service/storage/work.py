"""Due work: the columns of `chats` that say what is to be done, and who is doing it.

The row is the truth. Redis only wakes workers: flush it, and `overdue` finds the work again. All times are the
database's, so workers' clocks do not matter.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import cast
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Interval, case, func, literal, null, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.owner import ChatKey, of
from service.storage.tables import chats


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a chat until it expires; `token` fences whatever is written with it."""

    chat: ChatKey
    token: UUID
    seq: int
    epoch: int
    attempts: int
    model: str
    window: int
    overhead: int
    leaf: str | None


_MOST_ATTEMPTS = 1000  # counted; a chat may fail for ever, a column does not count for ever


def in_seconds(seconds: float) -> ColumnElement[datetime]:
    """The database's time in so many seconds."""
    return func.now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds, type_=Interval)


_FREE = or_(chats.c.lease_until.is_(None), chats.c.lease_until < func.now())


async def mark_due(connection: AsyncConnection, chat: ChatKey, debounce: float) -> int:
    """Marks work due, in the transaction that stores what it is about.

    Work that is due already stays as it is, so that a failing chat is not tried again at every turn.

    Returns:
        The sequence number of this hand-over.
    """
    query = (
        update(chats)
        .where(*of(chat, chats))
        .values(handed_seq=chats.c.handed_seq + 1, due_at=func.coalesce(chats.c.due_at, in_seconds(debounce)))
        .returning(chats.c.handed_seq)
    )
    return cast(int, (await connection.execute(query)).scalar_one())


async def mark_due_at_once(connection: AsyncConnection, chat: ChatKey) -> int:
    """Marks work due now, as an operator wants it: whatever failed before does not put it off.

    Returns:
        The sequence number to ring with.
    """
    query = update(chats).where(*of(chat, chats))
    query = query.values(handed_seq=chats.c.handed_seq + 1, due_at=func.now(), attempts=0)
    return cast(int, (await connection.execute(query.returning(chats.c.handed_seq))).scalar_one())


async def claim(connection: AsyncConnection, chat: int, seconds: float) -> Lease | None:
    """Takes the lease of a chat with due work; None when there is none, or somebody else has it.

    Only the internal id is known here, because a ring carries no more. Everything after goes by the lease's key.
    """
    token = uuid4()
    query = (
        update(chats)
        .where(chats.c.id == chat, chats.c.due_at <= func.now(), _FREE)
        .values(
            lease_token=token,
            lease_until=in_seconds(seconds),
            attempts=func.least(chats.c.attempts, _MOST_ATTEMPTS) + 1,
        )
        .returning(
            chats.c.tenant_id,
            chats.c.handed_seq,
            chats.c.epoch,
            chats.c.attempts,
            chats.c.model,
            chats.c.window_tokens,
            chats.c.overhead_tokens,
            chats.c.leaf_id,
        )
    )
    row = (await connection.execute(query)).one_or_none()
    return Lease(ChatKey(row.tenant_id, chat), token, *row[1:]) if row else None


async def renew(connection: AsyncConnection, lease: Lease, seconds: float) -> bool:
    """Keeps the lease while a call takes long; False when it is lost."""
    query = update(chats).where(*_mine(lease)).values(lease_until=in_seconds(seconds))
    return (await connection.execute(query)).rowcount == 1


async def holds(connection: AsyncConnection, lease: Lease) -> bool:
    """Whether the lease is still ours and nothing was reset meanwhile; locks the row until the transaction ends."""
    query = select(chats.c.epoch).where(*_mine(lease)).with_for_update()
    return (await connection.execute(query)).scalar_one_or_none() == lease.epoch


async def finish(connection: AsyncConnection, lease: Lease, *, again: bool, debounce: float) -> bool:
    """Ends the work. It stays due when more was handed over meanwhile, or when there is more to do (`again`).

    Returns:
        Whether it stays due.
    """
    more = or_(literal(again), chats.c.handed_seq > lease.seq, chats.c.epoch != lease.epoch)
    query = (
        update(chats)
        .where(*_mine(lease))
        .values(
            done_seq=lease.seq,
            due_at=case((more, in_seconds(0 if again else debounce)), else_=null()),
            attempts=0,
            last_error=None,
            lease_token=None,
            lease_until=None,
        )
        .returning(chats.c.due_at)
    )
    return (await connection.execute(query)).scalar_one_or_none() is not None


async def give_back(connection: AsyncConnection, lease: Lease, error: str | None, delay: float) -> None:
    """Releases the lease; the work is due again in `delay` seconds. Without an error the attempt does not count."""
    attempts = chats.c.attempts if error else func.greatest(chats.c.attempts - 1, 0)
    query = (
        update(chats)
        .where(*_mine(lease))
        .values(due_at=in_seconds(delay), attempts=attempts, last_error=error, lease_token=None, lease_until=None)
    )
    await connection.execute(query)


async def overdue(connection: AsyncConnection, limit: int = 200) -> list[tuple[int, int]]:
    """(internal chat id, handed_seq) of work that is due and that nobody works on, oldest first; of all tenants."""
    query = (
        select(chats.c.id, chats.c.handed_seq)
        .where(chats.c.due_at <= func.now(), _FREE)
        .order_by(chats.c.due_at)
        .limit(limit)
    )
    return [(chat, seq) for chat, seq in await connection.execute(query)]


def _mine(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return *of(lease.chat, chats), chats.c.lease_token == lease.token
