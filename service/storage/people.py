"""Everything that is stored of one user, found, and read for an export.

A user's own chats are those that the user began. In chats of others, the user's are the messages
that say so (`messages.author_id`).
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import checkpoints as made
from service.storage import runs as of_runs
from service.storage import sealing, statements
from service.storage.audit import user_actor
from service.storage.chats import is_saved
from service.storage.codec import unpack
from service.storage.messages import place_of, subtree
from service.storage.sealing import Seal
from service.storage.sums import COUNTS
from service.storage.tables import (
    audit,
    chat_authors,
    chats,
    checkpoints,
    messages,
    sums,
)
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among, not_among

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class User:
    """A user of Open WebUI who wrote in chats.

    `chats` are the user's own, `beside` those of others; `updated_at` is when one of them grew
    last.
    """

    user_id: str
    chats: int
    beside: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat, by its key and by Open WebUI's id."""

    key: ChatKey
    chat_id: str


@dataclass(frozen=True, slots=True)
class UserTotals:
    """How much is stored of a user.

    Attributes:
        messages: in the user's own chats.
        of_others: those of them that other users wrote.
        checkpoints: of own chats.
        runs: of own chats.
        written_beside: the user's messages in chats of others.
        covered_beside: checkpoints of chats of others that have read one of these.
        figures: rows of daily figures.
        audit: rows of the audit log of what the user did, or that name the user or an own chat.
    """

    messages: int
    of_others: int
    checkpoints: int
    runs: int
    written_beside: int
    covered_beside: int
    figures: int
    audit: int


@dataclass(frozen=True, slots=True)
class Written:
    """One message that a user wrote in another's chat."""

    message_id: str
    role: str


_SQL = statements.load("people")
_USERS = text(_SQL["users"])
_COUNTS = text(_SQL["counts"])


async def users(
    connection: AsyncConnection, tenant: int, limit: int, after: str, begins: str
) -> list[User]:
    """A page of users by id, behind the user `after`; of those whose id begins so."""
    parameters = {"tenant": tenant, "after": after, "begins": begins, "limit": limit}
    rows = await connection.execute(_USERS, parameters)
    return [User(**row) for row in rows.mappings()]


async def own(
    connection: AsyncConnection,
    tenant: int,
    user: str,
    *,
    but: Collection[str] | None = None,
    lock: bool = False,
) -> list[Chat]:
    """The chats that a user began, oldest first; with `lock`, nobody else changes them.

    With `but`, only those that Open WebUI stores, without the chats of these ids.
    """
    which = [chats.c.user_id == user]
    if but is not None:
        which += [is_saved(), not_among(chats.c.external_id, but)]
    return await _chats(connection, tenant, which, lock=lock)


async def beside(
    connection: AsyncConnection, tenant: int, user: str, *, lock: bool = False
) -> list[Chat]:
    """The chats of others in which a user wrote, oldest first; `lock` as for `own`."""
    wrote = select(chat_authors.c.chat_id).where(
        chat_authors.c.tenant_id == tenant, chat_authors.c.user_id == user
    )
    return await _chats(
        connection, tenant, [chats.c.id.in_(wrote), chats.c.user_id != user], lock=lock
    )


async def _chats(
    connection: AsyncConnection, tenant: int, which: Sequence[ColumnElement[bool]], *, lock: bool
) -> list[Chat]:
    """Chats in the order in which everybody locks them."""
    query = select(chats.c.id, chats.c.external_id).where(chats.c.tenant_id == tenant, *which)
    query = query.order_by(chats.c.id)
    rows = await connection.execute(query.with_for_update() if lock else query)
    return [Chat(ChatKey(tenant, row.id), row.external_id) for row in rows]


async def counts(
    connection: AsyncConnection,
    tenant: int,
    user: str,
    theirs: Collection[Chat],
    others: Collection[Chat],
) -> UserTotals:
    """How much is stored of a user, whose own chats are `theirs`, and who wrote in `others`."""
    covered = 0
    for chat in others:
        written = [one.message_id for one in await written_in(connection, chat.key, user)]
        covered += len(await covering(connection, chat.key, written))
    parameters = {
        "tenant": tenant,
        "user": user,
        "actor": user_actor(user),
        "own": [chat.key.id for chat in theirs],
        "beside": [chat.key.id for chat in others],
        "names": [chat.chat_id for chat in theirs],
        "covered": covered,
    }
    return UserTotals(**(await connection.execute(_COUNTS, parameters)).mappings().one())


async def written_in(connection: AsyncConnection, chat: ChatKey, user: str) -> list[Written]:
    """The messages that a user wrote in another's chat."""
    query = select(messages.c.message_id, messages.c.role).where(
        *of(chat, messages), messages.c.author_id == user
    )
    return [Written(*row) for row in await connection.execute(query)]


async def gone_chats(connection: AsyncConnection, tenant: int, user: str) -> list[str]:
    """The chats, by Open WebUI's id, of which a user wanted something, and that are not stored."""
    stored = select(chats.c.id).where(
        chats.c.tenant_id == tenant, chats.c.external_id == audit.c.chat
    )
    query = select(audit.c.chat).where(
        audit.c.tenant_id == tenant, audit.c.actor == user_actor(user), ~stored.exists()
    )
    return list((await connection.execute(query.distinct())).scalars())


async def read_chat(connection: AsyncConnection, chat: ChatKey) -> Json | None:
    """The row of a chat, as far as it is about its user; None when it was deleted meanwhile."""
    columns = (
        *("external_id", "model", "created_at", "updated_at", "expires_at", "user_id"),
        "left_alone_at",
    )
    query = select(*(chats.c[name] for name in columns)).where(*of(chat, chats))
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else dict(row)


async def read_messages(
    connection: AsyncConnection, chat: ChatKey, author: str | None
) -> list[Json]:
    """The messages of a chat with their texts, the root first; with `author`, only that user's.

    `content` is all that is kept of a message, None when its text is not kept any more.
    """
    columns = ("message_id", "parent_id", "author_id", "tokens", "sent_at", "created_at", "body")
    query = select(*(messages.c[name] for name in columns)).where(*of(chat, messages))
    if author is not None:
        query = query.where(messages.c.author_id == author)
    rows = await connection.execute(query.order_by(messages.c.depth, messages.c.message_id))
    seal = await sealing.of(connection, chat.tenant)
    return [_with_text(dict(row), chat, seal) for row in rows.mappings()]


async def read_checkpoints(connection: AsyncConnection, chat: ChatKey) -> list[Json]:
    """The summaries of a chat with all their parts, oldest first."""
    columns = ("id", "covered_until", "covered_messages", "kind", "created_at")
    query = select(*(checkpoints.c[name] for name in columns)).where(*of(chat, checkpoints))
    rows = (await connection.execute(query.order_by(checkpoints.c.id))).mappings().all()
    found = []
    for row in rows:
        summary = await made.summary(connection, chat, row["id"])
        memory = await made.memory(connection, chat, row["id"])
        if summary and memory:
            found.append({**row, "summary": summary, "memory": memory})
    return found


async def read_work(connection: AsyncConnection, chat: ChatKey) -> list[Json]:
    """The rounds of work."""
    return [asdict(run) for run in await of_runs.latest(connection, chat, limit=None)]


async def read_figures(connection: AsyncConnection, tenant: int, user: str) -> list[Json]:
    """The daily figures of a user, by model."""
    keys = sums.c.day, sums.c.model
    query = select(*keys, *(func.sum(sums.c[name]).cast(BigInteger).label(name) for name in COUNTS))
    query = query.where(sums.c.tenant_id == tenant, sums.c.user_id == user)
    rows = await connection.execute(query.group_by(*keys).order_by(*keys))
    return [dict(row) for row in rows.mappings()]


async def read_audit(
    connection: AsyncConnection, tenant: int, user: str, names: Collection[str]
) -> list[Json]:
    """The rows of the audit log that are of a user, or name the user or one of these chats."""
    query = select(audit.c.at, audit.c.actor, audit.c.action, audit.c.chat, audit.c.details).where(
        audit.c.tenant_id == tenant,
        or_(
            audit.c.actor == user_actor(user),
            audit.c.details["user"].astext == user,
            among(audit.c.chat, names),
        ),
    )
    return [dict(row) for row in (await connection.execute(query.order_by(audit.c.id))).mappings()]


async def covering(
    connection: AsyncConnection, chat: ChatKey, written: Collection[str]
) -> list[int]:
    """The checkpoints that have read one of these messages, or a path that is not stored now."""
    if not written:
        return []
    free = (
        select(messages.c.message_id)
        .where(
            *of(chat, messages),
            messages.c.message_id == checkpoints.c.covered_until,
            messages.c.digest == checkpoints.c.covered_digest,
            messages.c.message_id.not_in(subtree(chat, written)),
        )
        .exists()
    )
    query = select(checkpoints.c.id).where(*of(chat, checkpoints), ~free)
    return list((await connection.execute(query)).scalars())


def _with_text(row: Json, chat: ChatKey, seal: Seal) -> Json:
    body = row.pop("body")
    if body is None:
        return row | {"content": None}
    where = place_of(chat, row["message_id"])
    return row | {"content": unpack(seal.open(where, body))}
