"""What users want of their chats: to be left alone, and sentences for their summaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, null, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import chats
from service.storage.tenancy import ChatKey, of


@dataclass(frozen=True, slots=True)
class Wanted:
    """A chat, and what its user wants of it.

    `working` says that a summary is due or being written. `left_alone_at` is None when it is
    summarised as usual.
    """

    key: ChatKey
    model: str
    working: bool
    left_alone_at: datetime | None
    wishes: Sequence[str]


async def find(
    connection: AsyncConnection, tenant: int, chat: str, user: str | None, *, lock: bool = False
) -> Wanted | None:
    """A chat by Open WebUI's id; None when there is none, or when it is not this `user`'s.

    Args:
        connection: of a transaction.
        tenant: whose chat it is.
        chat: Open WebUI's chat id.
        user: whose it has to be; None for operators, who see all of the tenant's.
        lock: whether nobody else may change it until the transaction ends.
    """
    columns = chats.c.model, _is_working(), chats.c.left_alone_at, chats.c.wishes
    query = select(chats.c.id, *columns).where(
        chats.c.tenant_id == tenant,
        chats.c.external_id == chat,
        func.coalesce(chats.c.expires_at > func.now(), True),
    )
    if user is not None:
        query = query.where(chats.c.user_id == user)
    if lock:
        query = query.with_for_update()
    row = (await connection.execute(query)).one_or_none()
    return Wanted(ChatKey(tenant, row.id), *row[1:]) if row else None


def _is_working() -> ColumnElement[bool]:
    leased = func.coalesce(chats.c.lease_until > func.now(), False)
    return or_(chats.c.due_at.is_not(None), leased)


async def store(connection: AsyncConnection, chat: ChatKey, wishes: Sequence[str]) -> None:
    """Stores the wishes in the place of those that are there."""
    await connection.execute(update(chats).where(*of(chat, chats)).values(wishes=list(wishes)))


async def leave_alone(connection: AsyncConnection, chat: ChatKey) -> None:
    """From now on it is not served, and no work is due; one that is under way may end."""
    nothing_due = {"due_at": None, "dead_at": None, "pressing": False}
    values = {"left_alone_at": func.now()} | nothing_due
    await connection.execute(update(chats).where(*of(chat, chats)).values(values))


async def resume(connection: AsyncConnection, chat: ChatKey) -> None:
    """From now on it is summarised as usual."""
    values = {"left_alone_at": null()}
    await connection.execute(update(chats).where(*of(chat, chats)).values(values))
