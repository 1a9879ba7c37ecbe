"""What is old enough to be removed, of all tenants.

Every function removes a page of rows, or what is old of one chat, in the caller's short
transaction, so nobody waits long for its locks. A row that somebody else has locked (another round,
a worker, an ingest) is left for the next time.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Date,
    FromClause,
    Select,
    Table,
    and_,
    any_,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import (
    audit,
    chats,
    checkpoints,
    messages,
    runs,
    sums,
    tombstones,
)
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among, in_seconds

PAGE = 1000  # rows
_DAY = 24 * 3600  # seconds
_CHATS = 50  # with a chat, some hundreds of rows are deleted

_TIME = {audit: audit.c.at, chats: chats.c.updated_at, runs: runs.c.started_at}


async def old_rows(
    connection: AsyncConnection, after: int | None, *, table: Table, days: int
) -> list[int]:
    """Removes a page of old audit rows, chats or runs, in the order of their ids.

    A chat's age counts from its last ingest.

    Returns:
        Their ids; an empty page is the end.
    """
    size = _CHATS if table is chats else PAGE
    query = (
        select(table.c.id)
        .where(table.c.id > (after or 0), _TIME[table] < _before(days))
        .order_by(table.c.id)
        .limit(size)
    )
    ids = list((await connection.execute(_locked(query, table))).scalars())
    if ids:
        await connection.execute(delete(table).where(among(table.c.id, ids)))
    return ids


async def old_sums(connection: AsyncConnection, days: int) -> int:
    """Removes the sums of old days; returns how many rows.

    Not by pages, because nobody writes to these rows any more.
    """
    old = sums.c.day < _before(days).cast(Date)
    return (await connection.execute(delete(sums).where(old))).rowcount


async def expired_chats(
    connection: AsyncConnection,
    after: int | None,  # noqa: ARG001 - those of the page before are gone
) -> list[int]:
    """Removes a page of chats that have expired, with everything stored for them.

    Returns:
        Their ids; an empty page is the end.
    """
    query = (
        select(chats.c.id)
        .where(chats.c.expires_at <= func.now())
        .order_by(chats.c.expires_at)
        .limit(_CHATS)
    )
    ids = list((await connection.execute(_locked(query, chats))).scalars())
    if ids:
        await connection.execute(delete(chats).where(among(chats.c.id, ids)))
    return ids


async def past_tombstones(connection: AsyncConnection) -> None:
    """Removes the tombstones that do not stand any more."""
    await connection.execute(delete(tombstones).where(tombstones.c.until <= func.now()))


async def chats_with_old_texts(connection: AsyncConnection, days: int) -> set[ChatKey]:
    """The chats that have texts, and had no new messages for so many days."""
    # A message is never newer than its chat, so the index of texts by age finds them.
    old_text = select(messages.c.message_id).where(
        messages.c.tenant_id == chats.c.tenant_id,
        messages.c.chat_id == chats.c.id,
        messages.c.body.is_not(None),
        messages.c.created_at < _before(days),
    )
    query = select(chats.c.tenant_id, chats.c.id)
    query = query.where(chats.c.updated_at < _before(days), old_text.exists())
    return {ChatKey(*row) for row in await connection.execute(query)}


async def old_texts(connection: AsyncConnection, chat: ChatKey, days: int) -> int:
    """Drops all texts of a chat that had no new messages for so many days; returns how many.

    All at once: so where the text of a message is stored, those of all messages above it are, and a
    request sees at its newest message whether it has to bring them again.
    """
    is_idle = chats.c.updated_at < _before(days)
    if not await _lock(connection, chat, is_idle):
        return 0
    # An ingest under way reads the chat again when its row has changed.
    touched = update(chats).where(*of(chat, chats)).values(updated_at=chats.c.updated_at)
    await connection.execute(touched)
    texts = update(messages).where(*of(chat, messages), messages.c.body.is_not(None))
    return (await connection.execute(texts.values(body=None))).rowcount


async def chats_with_lost_checkpoints(connection: AsyncConnection, days: int) -> set[ChatKey]:
    """The chats with an old checkpoint that its boundary message does not lead to."""
    # An edited boundary message is stored no more.
    leads_to_it = and_(
        messages.c.tenant_id == checkpoints.c.tenant_id,
        messages.c.chat_id == checkpoints.c.chat_id,
        messages.c.message_id == checkpoints.c.covered_until,
        messages.c.checkpoint_id == checkpoints.c.id,
    )
    query = select(checkpoints.c.tenant_id, checkpoints.c.chat_id).outerjoin(messages, leads_to_it)
    query = query.where(_old(checkpoints, days), messages.c.message_id.is_(None))
    return {ChatKey(*row) for row in await connection.execute(query.distinct())}


async def lost_checkpoints(connection: AsyncConnection, chat: ChatKey, days: int) -> int:
    """Removes the old checkpoints that no message leads to; returns how many.

    A message leads to its checkpoint and to those that this one grew from. One from which a young
    one grew stays too, because the young one is stored as what it adds to that. The age of one that
    was put out of service counts from then, so that it can be looked at.
    """
    if not await _lock(connection, chat):
        return 0
    lost = (*of(chat, checkpoints), _old(checkpoints, days), ~_is_needed(chat, days))
    return (await connection.execute(delete(checkpoints).where(*lost))).rowcount


def _is_needed(chat: ChatKey, days: int) -> ColumnElement[bool]:
    """Whether the checkpoint itself, or one that grew from it, is young or has a message."""
    grown = checkpoints.alias()
    used = select(messages).where(*of(chat, messages), messages.c.checkpoint_id == grown.c.id)
    living = select(grown).where(
        *of(chat, grown),
        or_(grown.c.id == checkpoints.c.id, checkpoints.c.id == any_(grown.c.ancestors)),
        or_(~_old(grown, days), used.exists()),
    )
    return living.exists()


def _old(made: FromClause, days: int) -> ColumnElement[bool]:
    return func.coalesce(made.c.retired_at, made.c.created_at) < _before(days)


def _before(days: int) -> ColumnElement[datetime]:
    return in_seconds(-days * _DAY)


def _locked(query: Select[Any], table: Table) -> Select[Any]:
    return query.with_for_update(of=table, skip_locked=True)


async def _lock(connection: AsyncConnection, chat: ChatKey, *which: ColumnElement[bool]) -> bool:
    """Locks a chat; False when somebody else has, or when it is none of `which`."""
    query = _locked(select(chats.c.id).where(*of(chat, chats), *which), chats)
    return (await connection.execute(query)).one_or_none() is not None
