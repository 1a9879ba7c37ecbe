"""Whether a chat is left alone, as its user wants: no summary of it is made, and none serves."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, null, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import chats
from service.storage.tenancy import ChatKey, of


@dataclass(frozen=True, slots=True)
class OwnedChat:
    """A chat, whose it is, and whether it is left alone.

    `owner` is who began it. `working` says that a summary is due or being written. `left_alone_at`
    is None when it is summarised as usual.
    """

    key: ChatKey
    owner: str
    model: str
    working: bool
    left_alone_at: datetime | None


async def find(
    connection: AsyncConnection, tenant: int, chat: str, *, lock: bool = False
) -> OwnedChat | None:
    """A chat by Open WebUI's id; None when there is none.

    With `lock`, nobody else may change it until the transaction ends.
    """
    columns = chats.c.user_id, chats.c.model, _is_working(), chats.c.left_alone_at
    query = select(chats.c.id, *columns).where(
        chats.c.tenant_id == tenant,
        chats.c.external_id == chat,
        func.coalesce(chats.c.expires_at > func.now(), True),
    )
    if lock:
        query = query.with_for_update()
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    identity, *state = row
    return OwnedChat(ChatKey(tenant, identity), *state)


def _is_working() -> ColumnElement[bool]:
    leased = func.coalesce(chats.c.lease_until > func.now(), False)
    return or_(chats.c.due_at.is_not(None), leased)


async def leave_alone(connection: AsyncConnection, chat: ChatKey) -> None:
    """From now on it is not served, and no work is due; one that is under way may end."""
    nothing_due = {"due_at": None, "dead_at": None, "pressing": False}
    values = {"left_alone_at": func.now()} | nothing_due
    await connection.execute(update(chats).where(*of(chat, chats)).values(values))


async def resume(connection: AsyncConnection, chat: ChatKey) -> None:
    """From now on it is summarised as usual."""
    values = {"left_alone_at": null()}
    await connection.execute(update(chats).where(*of(chat, chats)).values(values))
