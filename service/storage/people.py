"""Everything that is stored of one user, found and counted.

A user's own chats are those that the user began. The shared ones are chats of others in which the
user wrote, or that were forked from a chat in which the user wrote.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import statements
from service.storage.audit import name_user
from service.storage.chats import is_saved, open_label
from service.storage.tables import audit, chat_authors, chats
from service.storage.tenancy import ChatKey
from service.storage.terms import not_in_values


@dataclass(frozen=True, slots=True)
class User:
    """A user of Open WebUI who wrote in chats.

    `chats` counts the user's own chats, `shared_chats` those of others; `updated_at` is when one of
    them grew last. `user_name` is null while nobody has sent it.
    """

    user_id: str
    user_name: str | None
    chats: int
    shared_chats: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class NamedChat:
    """A chat, by its key and by Open WebUI's id."""

    key: ChatKey
    chat_id: str


@dataclass(frozen=True, slots=True)
class UserTotals:
    """How much is stored of a user.

    Attributes:
        messages: in the user's own chats.
        checkpoints: of own chats.
        audit: rows of the audit log of what the user did, or that name the user or an own chat.
    """

    messages: int
    checkpoints: int
    audit: int


_SQL = statements.load_statements("people")
_USERS = text(_SQL["users"])
_COUNTS = text(_SQL["counts"])


async def list_users(
    connection: AsyncConnection, tenant: int, limit: int, after: str, begins: str
) -> list[User]:
    """A page of users by id, behind the user `after`; of those whose id begins so."""
    parameters = {"tenant": tenant, "after": after, "begins": begins, "limit": limit}
    found: list[User] = []
    for row in (await connection.execute(_USERS, parameters)).mappings().all():
        named_by = ChatKey(tenant, row["id"])
        name = await open_label(connection, named_by, "user_name", row["user_name"])
        counted = (row["chats"], row["shared_chats"])
        found.append(User(row["user_id"], name, *counted, row["updated_at"]))
    return found


async def list_own_chats(
    connection: AsyncConnection,
    tenant: int,
    user: str,
    *,
    but: Collection[str] | None = None,
    lock: bool = False,
) -> list[NamedChat]:
    """The chats that a user began, oldest first; with `lock`, nobody else changes them.

    With `but`, only those that Open WebUI stores, without the chats of these ids.
    """
    which = [chats.c.user_id == user]
    if but is not None:
        which += [is_saved(), not_in_values(chats.c.external_id, but)]
    return await _list_chats(connection, tenant, which, lock=lock)


async def list_shared_chats(
    connection: AsyncConnection, tenant: int, user: str, *, lock: bool = False
) -> list[NamedChat]:
    """The chats of others with words of a user, oldest first; `lock` as for `own_chats`."""
    wrote = select(chat_authors.c.chat_id).where(
        chat_authors.c.tenant_id == tenant, chat_authors.c.user_id == user
    )
    return await _list_chats(
        connection, tenant, [chats.c.id.in_(wrote), chats.c.user_id != user], lock=lock
    )


async def _list_chats(
    connection: AsyncConnection, tenant: int, which: Sequence[ColumnElement[bool]], *, lock: bool
) -> list[NamedChat]:
    """Chats in the order in which everybody locks them."""
    query = select(chats.c.id, chats.c.external_id).where(chats.c.tenant_id == tenant, *which)
    query = query.order_by(chats.c.id)
    rows = await connection.execute(query.with_for_update() if lock else query)
    return [NamedChat(ChatKey(tenant, row.id), row.external_id) for row in rows]


async def count_user_rows(
    connection: AsyncConnection, tenant: int, user: str, own: Collection[NamedChat]
) -> UserTotals:
    """Counts what is stored of a user, whose own chats are `own`."""
    parameters = {
        "tenant": tenant,
        "user": user,
        "actor": name_user(user),
        "own": [chat.key.id for chat in own],
        "names": [chat.chat_id for chat in own],
    }
    return UserTotals(**(await connection.execute(_COUNTS, parameters)).mappings().one())


async def list_gone_chats(connection: AsyncConnection, tenant: int, user: str) -> list[str]:
    """The chats, by Open WebUI's id, of which a user wanted something, and that are not stored."""
    stored = select(chats.c.id).where(
        chats.c.tenant_id == tenant, chats.c.external_id == audit.c.chat
    )
    query = select(audit.c.chat).where(
        audit.c.tenant_id == tenant, audit.c.actor == name_user(user), ~stored.exists()
    )
    return list((await connection.execute(query.distinct())).scalars())
