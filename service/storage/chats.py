"""Chats: made by a hand-over, looked at and changed by operators. Every statement names the tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    and_,
    bindparam,
    case,
    delete,
    func,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.clock import in_seconds
from service.storage.many import not_among
from service.storage.tables import chats, checkpoints, messages, partials, runs
from service.storage.tenancy import ChatKey, of


@dataclass(frozen=True, slots=True)
class Overview:
    """One chat in a list. `path_tokens` and `messages` are those of the branch handed over last.

    `wants_bodies` says that work waits for texts that are not kept any more; they come with the
    chat's next turn. `compactor` is who else compresses the chat; while it is `open-webui`, no
    summary is made here. `masked` counts the secrets that were masked in what is stored of it.
    """

    id: int
    chat_id: str
    user_id: str
    model: str
    window_tokens: int
    overhead_tokens: int
    leaf_id: str | None
    messages: int
    path_tokens: int
    checkpoints: int
    due_at: datetime | None
    working: bool
    attempts: int
    wants_bodies: bool
    last_error: str | None
    expires_at: datetime | None
    compactor: str | None
    masked: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model, its window in tokens, and the tokens of its requests that are no messages."""

    name: str
    window: int
    overhead: int


@dataclass(frozen=True, slots=True)
class Branch:
    """One leaf of the chat tree and the deepest checkpoint on its path."""

    leaf_id: str
    messages: int
    path_tokens: int
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True)
class Made:
    """One checkpoint without its texts.

    Those of one parent and boundary are versions of each other; `serving` says that some message
    leads to this one, or to one that grew from it. `verdict` is what the publish gate found, and
    who corrected or served it by hand.
    """

    id: int
    parent_id: int | None
    serving: bool
    version: int
    covered_until: str
    covered_digest: str
    covered_messages: int
    covered_tokens: int
    tokens: int
    kind: str
    summariser: str
    prompt_version: str
    verdict: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Spent:
    """What all rounds of work on a chat took together."""

    calls: int
    tokens_read: int
    tokens_written: int


@dataclass(frozen=True, slots=True)
class Run:
    """One round of work on a chat."""

    id: int
    seq: int
    outcome: str
    reason: str
    calls: int
    tokens_read: int
    tokens_written: int
    published: int
    markers: int
    started_at: datetime
    ended_at: datetime | None


LINE = "({0}.ancestors || {0}.id)[cardinality({0}.ancestors) - 14:]"
"""SQL: the deepest 16 of a checkpoint and those it grew from, oldest first. An older one would leave more in a request
than all of these."""
SAVINGS = "{0}.savings[cardinality({0}.savings) - 15:]"
"""SQL: what each of them saves."""
_NOTE_LEAF = text(f"""
update chats set leaf_id = leaf.message_id, leaf_digest = leaf.digest, leaf_tokens = leaf.path_tokens,
    leaf_line = {LINE.format("made")}, leaf_savings = {SAVINGS.format("made")}
from messages leaf
left join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = leaf.chat_id and made.id = leaf.checkpoint_id
where chats.tenant_id = :tenant and chats.id = :chat and leaf.tenant_id = :tenant and leaf.chat_id = :chat
    and leaf.message_id = coalesce(:leaf, chats.leaf_id)
""")
COMPACTS_ITSELF = "open-webui"
"""The `compactor` beside which no summary is made: nothing is compressed twice."""
_NEWEST_CHATS = 200  # are looked through for the models that are in use
MORE_TOOLS = 1.5  # times what is known; by less an estimate may be wrong
_RUN = [runs.c[name] for name in Run.__dataclass_fields__]


async def open_chat(
    connection: AsyncConnection,
    tenant: int,
    chat: str,
    *,
    user: str,
    model: str,
    window: int,
    expires_in: int | None = None,
    compactor: str | None = None,
) -> tuple[ChatKey, bool]:
    """Makes a chat when it is new, brings it up to date, and locks it until the transaction ends.

    One that has expired is gone, whether a sweep has come by or not.

    Returns:
        Its key, and whether work waits for texts that are not kept any more.
    """
    named = (chats.c.tenant_id == tenant, chats.c.external_id == chat)
    await connection.execute(delete(chats).where(*named, chats.c.expires_at <= func.now()))
    values = {
        "user_id": user,
        "model": model,
        "window_tokens": window,
        "expires_at": in_seconds(expires_in) if expires_in else None,
        "compactor": compactor,
        "updated_at": func.now(),
    }
    statement = insert(chats).values(tenant_id=tenant, external_id=chat, **values)
    statement = statement.on_conflict_do_update(
        index_elements=["tenant_id", "external_id"], set_=values
    )
    row = (await connection.execute(statement.returning(chats.c.id, chats.c.wants_bodies))).one()
    return ChatKey(tenant, row.id), row.wants_bodies


async def ingested(
    connection: AsyncConnection,
    chat: ChatKey,
    leaf: str,
    measured: int | None,
    estimated: int,
    masks: int,
) -> int:
    """Notes the newest path, whose texts are here now, and its overhead.

    `measured` None keeps the overhead that is known, unless `estimated` is clearly more: then tools
    were added. `masks` is how many secrets were masked in the texts that are new.

    Returns:
        The overhead in force.
    """
    await note_leaf(connection, chat, leaf)
    before = chats.c.overhead_tokens
    known = func.coalesce(
        measured, case((estimated > before * MORE_TOOLS, estimated), else_=before)
    )
    noted = {"overhead_tokens": known, "wants_bodies": False, "masked": chats.c.masked + masks}
    query = update(chats).where(*of(chat, chats)).values(noted)
    return cast(
        int, (await connection.execute(query.returning(chats.c.overhead_tokens))).scalar_one()
    )


async def note_leaf(connection: AsyncConnection, chat: ChatKey, leaf: str | None = None) -> None:
    """Copies what the read on the request path needs of the newest path into the chat's row.

    To be called, before the transaction ends, whenever another checkpoint has become the deepest
    one of the leaf; `leaf` None keeps the leaf.
    """
    await connection.execute(_NOTE_LEAF, {"tenant": chat.tenant, "chat": chat.id, "leaf": leaf})


async def lock(connection: AsyncConnection, tenant: int, chat: str) -> ChatKey | None:
    """The key of an existing chat, locked until the transaction ends; None when this tenant has no such chat."""
    query = select(chats.c.tenant_id, chats.c.id)
    query = query.where(chats.c.tenant_id == tenant, chats.c.external_id == chat).with_for_update()
    row = (await connection.execute(query)).one_or_none()
    return ChatKey(*row) if row else None


async def overviews(
    connection: AsyncConnection,
    tenant: int,
    *,
    chat: str | None = None,
    after: tuple[datetime, int] | None = None,
    limit: int = 1,
) -> list[Overview]:
    """Chats of a tenant, the newest first: one by name, or a page of those after (updated_at, id)."""
    made = select(func.count()).where(
        checkpoints.c.tenant_id == tenant, checkpoints.c.chat_id == chats.c.id
    )
    columns: list[ColumnElement[Any]] = [
        chats.c.id,
        chats.c.external_id,
        chats.c.user_id,
        chats.c.model,
        chats.c.window_tokens,
        chats.c.overhead_tokens,
        chats.c.leaf_id,
        func.coalesce(messages.c.depth, 0),
        func.coalesce(messages.c.path_tokens, 0),
        made.scalar_subquery(),
        chats.c.due_at,
        func.coalesce(chats.c.lease_until > func.now(), False),
        chats.c.attempts,
        chats.c.wants_bodies,
        chats.c.last_error,
        chats.c.expires_at,
        chats.c.compactor,
        chats.c.masked,
        chats.c.created_at,
        chats.c.updated_at,
    ]
    leaf = and_(
        messages.c.tenant_id == tenant,
        messages.c.chat_id == chats.c.id,
        messages.c.message_id == chats.c.leaf_id,
    )
    query = (
        select(*columns)
        .outerjoin(messages, leaf)
        .where(chats.c.tenant_id == tenant)
        .order_by(chats.c.updated_at.desc(), chats.c.id.desc())
        .limit(limit)
    )
    if chat is not None:
        query = query.where(chats.c.external_id == chat)
    if after is not None:
        query = query.where(tuple_(chats.c.updated_at, chats.c.id) < tuple_(*after))
    return [Overview(*row) for row in await connection.execute(query)]


async def served_models(connection: AsyncConnection, tenant: int) -> list[ServedModel]:
    """The models of a tenant's newest chats, by name: each with what its newest chat was served with."""
    newest = (
        select(chats.c.model, chats.c.window_tokens, chats.c.overhead_tokens, chats.c.updated_at)
        .where(chats.c.tenant_id == tenant)
        .order_by(chats.c.updated_at.desc())
        .limit(_NEWEST_CHATS)
        .subquery()
    )
    columns = newest.c.model, newest.c.window_tokens, newest.c.overhead_tokens
    query = select(*columns).ext(distinct_on(newest.c.model))
    query = query.order_by(newest.c.model, newest.c.updated_at.desc())
    return [ServedModel(*row) for row in await connection.execute(query)]


async def branches(connection: AsyncConnection, chat: ChatKey) -> list[Branch]:
    """The leaves that are stored, the longest path first."""
    child = messages.alias()
    query = (
        select(
            messages.c.message_id,
            messages.c.depth,
            messages.c.path_tokens,
            messages.c.checkpoint_id,
        )
        .where(
            *of(chat, messages),
            ~select(child)
            .where(*of(chat, child), child.c.parent_id == messages.c.message_id)
            .exists(),
        )
        .order_by(messages.c.depth.desc())
    )
    return [Branch(*row) for row in await connection.execute(query)]


async def made(connection: AsyncConnection, chat: ChatKey) -> list[Made]:
    """The chat's checkpoints, oldest first."""
    query = select(*_made(chat)).where(*of(chat, checkpoints)).order_by(checkpoints.c.id)
    return [Made(*row) for row in await connection.execute(query)]


async def summary(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int
) -> tuple[Made, str] | None:
    """One checkpoint and its summary message."""
    query = select(*_made(chat), checkpoints.c.summary).where(
        *of(chat, checkpoints), checkpoints.c.id == checkpoint
    )
    row = (await connection.execute(query)).one_or_none()
    return (Made(*row[:-1]), row[-1]) if row else None


def _made(chat: ChatKey) -> list[ColumnElement[Any]]:
    pointed = select(messages.c.checkpoint_id).where(*of(chat, messages))
    head = checkpoints.alias("head")
    lines = select(func.unnest(func.array_append(head.c.ancestors, head.c.id))).where(
        *of(chat, head), head.c.id.in_(pointed)
    )
    columns = (checkpoints.c[name] for name in list(Made.__dataclass_fields__)[3:])
    return [
        checkpoints.c.id,
        func.nullif(checkpoints.c.parent_id, 0),
        checkpoints.c.id.in_(lines),
        *columns,
    ]


async def latest_runs(connection: AsyncConnection, chat: ChatKey, limit: int = 20) -> list[Run]:
    """The newest rounds of work, newest first."""
    query = select(*_RUN).where(*of(chat, runs)).order_by(runs.c.id.desc()).limit(limit)
    return [Run(*row) for row in await connection.execute(query)]


async def spent(connection: AsyncConnection, chat: ChatKey) -> Spent:
    """Sums over all rounds of work."""
    sums = (func.coalesce(func.sum(runs.c[name]), 0) for name in Spent.__dataclass_fields__)
    row = (await connection.execute(select(*sums).where(*of(chat, runs)))).one()
    return Spent(*map(int, row))


async def drop_checkpoints(connection: AsyncConnection, chat: ChatKey, keep: Sequence[int]) -> int:
    """Deletes the chat's checkpoints but `keep` (one and its ancestors), and fences work that is under way.

    Returns:
        How many were deleted.
    """
    # Each message falls back to the deepest kept ancestor of its checkpoint; a child's id is above
    # its parent's.
    await connection.execute(
        text(
            "update messages m set checkpoint_id = (select max(a) from unnest(c.ancestors) a where a = any(:keep))"
            " from checkpoints c where m.tenant_id = :tenant and m.chat_id = :chat"
            " and c.tenant_id = :tenant and c.chat_id = :chat and c.id = m.checkpoint_id and not c.id = any(:keep)"
        ).bindparams(bindparam("keep", type_=ARRAY(BigInteger))),
        {"tenant": chat.tenant, "chat": chat.id, "keep": list(keep)},
    )
    dropped = await connection.execute(
        delete(checkpoints).where(*of(chat, checkpoints), not_among(checkpoints.c.id, keep))
    )
    await connection.execute(delete(partials).where(*of(chat, partials)))
    await fence(connection, chat)
    await note_leaf(connection, chat)
    return dropped.rowcount


async def fence(connection: AsyncConnection, chat: ChatKey) -> None:
    """Work that is under way is refused when it comes to publish."""
    await connection.execute(update(chats).where(*of(chat, chats)).values(epoch=chats.c.epoch + 1))


async def forget(connection: AsyncConnection, chat: ChatKey) -> None:
    """Deletes a chat and, by cascade, all that is its own."""
    await connection.execute(delete(chats).where(*of(chat, chats)))
