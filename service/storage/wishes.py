"""What users want of their chats: to be left alone, and sentences for their summaries."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, null, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import sealing
from service.storage.sealing import Seal, Where
from service.storage.tables import chats
from service.storage.tenancy import ChatKey, of


@dataclass(frozen=True, slots=True)
class Wanted:
    """A chat, and what its user wants of it.

    `owner` is who began it. `working` says that a summary is due or being written. `left_alone_at`
    is None when it is summarised as usual.
    """

    key: ChatKey
    owner: str
    model: str
    working: bool
    left_alone_at: datetime | None
    wishes: Sequence[str]


async def find(
    connection: AsyncConnection, tenant: int, chat: str, *, lock: bool = False
) -> Wanted | None:
    """A chat by Open WebUI's id; None when there is none.

    Args:
        connection: of a transaction.
        tenant: whose chat it is.
        chat: Open WebUI's chat id.
        lock: whether nobody else may change it until the transaction ends.
    """
    columns = chats.c.user_id, chats.c.model, _is_working(), chats.c.left_alone_at
    query = select(chats.c.id, *columns, chats.c.wishes, chats.c.sealed_wishes).where(
        chats.c.tenant_id == tenant,
        chats.c.external_id == chat,
        func.coalesce(chats.c.expires_at > func.now(), True),
    )
    if lock:
        query = query.with_for_update()
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    identity, *known, plain, sealed = row
    key = ChatKey(tenant, identity)
    seal = await sealing.of(connection, tenant)
    return Wanted(key, *(*known, opened(key, plain, sealed, seal)))


def _is_working() -> ColumnElement[bool]:
    leased = func.coalesce(chats.c.lease_until > func.now(), False)
    return or_(chats.c.due_at.is_not(None), leased)


async def store(connection: AsyncConnection, chat: ChatKey, wishes: Sequence[str]) -> None:
    """Stores the wishes in the place of those that are there."""
    seal = await sealing.of(connection, chat.tenant)
    values = stored(chat, wishes, seal)
    await connection.execute(update(chats).where(*of(chat, chats)).values(values))


def place_of(chat: ChatKey) -> Where:
    """Where a chat's wishes are sealed."""
    return Where(chats.name, chats.c.sealed_wishes.name, chat)


def stored(chat: ChatKey, wishes: Sequence[str], seal: Seal) -> dict[str, Any]:
    """Wishes as their columns: sealed, or as they are."""
    sealed = seal.seal_text(place_of(chat), json.dumps(wishes)) if wishes else None
    return {"wishes": list(wishes) if sealed is None else [], "sealed_wishes": sealed}


def opened(chat: ChatKey, plain: Sequence[str], sealed: bytes | None, seal: Seal) -> list[str]:
    """Wishes from their columns."""
    if sealed is None:
        return list(plain)
    found: list[str] = json.loads(seal.open_text(place_of(chat), sealed, ""))
    return found


async def leave_alone(connection: AsyncConnection, chat: ChatKey) -> None:
    """From now on it is not served, and no work is due; one that is under way may end."""
    nothing_due = {"due_at": None, "dead_at": None, "pressing": False}
    values = {"left_alone_at": func.now()} | nothing_due
    await connection.execute(update(chats).where(*of(chat, chats)).values(values))


async def resume(connection: AsyncConnection, chat: ChatKey) -> None:
    """From now on it is summarised as usual."""
    values = {"left_alone_at": null()}
    await connection.execute(update(chats).where(*of(chat, chats)).values(values))
