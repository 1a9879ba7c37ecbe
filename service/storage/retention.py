"""What is old enough to be removed, page by page, of all tenants.

In goes an age in days, out come the rows of a page, or how many were removed. Every page is a short
transaction, so nobody waits long for its locks, and a row that somebody else has locked (another
round, a worker, an ingest) is left for the next time.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Table,
    and_,
    any_,
    bindparam,
    delete,
    func,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import statements
from service.storage.messages import ERASED
from service.storage.tables import (
    audit,
    chats,
    checkpoints,
    messages,
    runs,
    tombstones,
)
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among, in_seconds

PAGE = 1000  # rows
_DAY = 24 * 3600  # seconds
_CHATS = 50  # with a chat, some hundreds of rows are deleted

_TIME = {audit: audit.c.at, chats: chats.c.updated_at, runs: runs.c.started_at}

BodyPlace = tuple[datetime, int, str]
"""The last body of a page: its age, chat and message."""

_CHATS_OF_MADE = select(checkpoints.c.tenant_id, checkpoints.c.chat_id)
# The message that a checkpoint covers last, unless it was edited since.
_BOUNDARY = and_(
    messages.c.tenant_id == checkpoints.c.tenant_id,
    messages.c.chat_id == checkpoints.c.chat_id,
    messages.c.message_id == checkpoints.c.covered_until,
)
_DROP_COVERED = text(statements.load("retention")["drop_covered"])


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


async def old_bodies(
    connection: AsyncConnection, after: BodyPlace | None, *, days: int
) -> list[BodyPlace]:
    """Drops a page of old bodies, oldest first.

    Those of chats with work that is due or under way stay for it.
    """
    query = _locked(_old_bodies(days, after), chats)
    page = [(at, chat, message) for at, chat, message in await connection.execute(query)]
    if page:
        gone = update(messages).where(
            messages.c.chat_id == bindparam("chat"), messages.c.message_id == bindparam("id")
        )
        await connection.execute(
            gone.values(body=None),
            [{"chat": chat, "id": message} for _, chat, message in page],
        )
    return page


async def covered_chats(connection: AsyncConnection) -> set[ChatKey]:
    """The chats with a checkpoint whose boundary message still has its body."""
    query = _CHATS_OF_MADE.join(messages, _BOUNDARY).where(messages.c.body.is_not(None))
    return {ChatKey(*row) for row in await connection.execute(query.distinct())}


async def covered_bodies(connection: AsyncConnection, chat: ChatKey) -> int:
    """Drops the bodies that a checkpoint covers on every branch through them; returns how many."""
    if not await _lock(connection, chat):
        return 0
    parameters = {"tenant": chat.tenant, "chat": chat.id}
    return int((await connection.execute(_DROP_COVERED, parameters)).scalar_one())


async def lost_chats(connection: AsyncConnection, days: int) -> set[ChatKey]:
    """The chats with an old checkpoint that its boundary message left."""
    led_to = and_(_BOUNDARY, messages.c.checkpoint_id == checkpoints.c.id)
    query = _CHATS_OF_MADE.outerjoin(messages, led_to)
    query = query.where(_old(checkpoints, days), messages.c.message_id.is_(None))
    return {ChatKey(*row) for row in await connection.execute(query.distinct())}


async def lost_checkpoints(connection: AsyncConnection, chat: ChatKey, days: int) -> int:
    """Removes the old checkpoints that no message leads to.

    A message leads to its checkpoint and to those that this one grew from.
    One from which a young one grew stays too, because the young one is stored as what it adds to
    that. One that was put out of service is as old as that, so that it can be looked at.

    Returns:
        How many.
    """
    if not await _lock(connection, chat):
        return 0
    lost = (*of(chat, checkpoints), _old(checkpoints, days), ~_is_needed(chat, days))
    return (await connection.execute(delete(checkpoints).where(*lost))).rowcount


def _old_bodies(days: int, after: BodyPlace | None) -> Select[Any]:
    """The places of a page of bodies whose chats have no work."""
    place = (messages.c.created_at, messages.c.chat_id, messages.c.message_id)
    in_chat = and_(chats.c.tenant_id == messages.c.tenant_id, chats.c.id == messages.c.chat_id)
    query = select(*place).join(chats, in_chat)
    query = query.where(
        messages.c.body.is_not(None),
        # Without its note, an erased text would be asked for again.
        messages.c.author_id.is_distinct_from(ERASED),
        messages.c.created_at < _before(days),
        chats.c.due_at.is_(None),
        chats.c.code_at.is_(None),
        or_(chats.c.lease_until.is_(None), chats.c.lease_until < func.now()),
    )
    if after:  # the first term is what the index can use
        query = query.where(messages.c.created_at >= after[0], tuple_(*place) > tuple_(*after))
    return query.order_by(*place).limit(PAGE)


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


async def _lock(connection: AsyncConnection, chat: ChatKey) -> bool:
    query = select(chats.c.id).where(*of(chat, chats)).with_for_update(skip_locked=True)
    return (await connection.execute(query)).one_or_none() is not None
