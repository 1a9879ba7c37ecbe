"""What is old enough to be removed, of all tenants.

Every function removes one page in the caller's short transaction, so nobody waits long for its
locks, and returns how much that was: 0 at the end. A row that somebody else has locked (another
round, a worker, an ingest) is left for the next time. Ages are in days.
"""

from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Table,
    any_,
    delete,
    func,
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
    tombstones,
)
from service.storage.terms import after_seconds, in_values

PAGE = 1000  # rows
_CHATS_PAGE = 50  # with a chat, some hundreds of rows change
_DAY = 24 * 3600  # seconds


async def delete_old_texts(connection: AsyncConnection, days: int) -> int:
    """Drops all texts of chats without new messages for so many days; returns how many texts.

    All at once: so where the text of a message is stored, those of all messages above it are, and a
    request sees at its newest message whether it has to bring them again.
    """
    # A message is never newer than its chat, so the index of texts by age finds them.
    old_text = select(messages.c.message_id).where(
        messages.c.tenant_id == chats.c.tenant_id,
        messages.c.chat_id == chats.c.id,
        messages.c.body.is_not(None),
        messages.c.created_at < _before(days),
    )
    idle = await _lock_page(
        connection, chats, chats.c.updated_at < _before(days), old_text.exists()
    )
    if not idle:
        return 0
    # An ingest under way reads its chat again when the row has changed.
    touched = update(chats).where(in_values(chats.c.id, idle))
    await connection.execute(touched.values(updated_at=chats.c.updated_at))
    texts = update(messages).where(
        in_values(messages.c.chat_id, idle), messages.c.body.is_not(None)
    )
    return (await connection.execute(texts.values(body=None))).rowcount


async def delete_retired_checkpoints(connection: AsyncConnection, days: int) -> int:
    """Removes checkpoints that were put out of service so many days ago.

    One from which another one grew stays as long as that, which is stored as what it adds to it.
    """
    grown = checkpoints.alias()
    is_read_by_another = select(grown.c.id).where(
        grown.c.tenant_id == checkpoints.c.tenant_id,
        grown.c.chat_id == checkpoints.c.chat_id,
        checkpoints.c.id == any_(grown.c.ancestors),
    )
    is_old = checkpoints.c.retired_at < _before(days)
    return await _delete_page(connection, checkpoints, is_old, ~is_read_by_another.exists())


async def delete_old_runs(connection: AsyncConnection, days: int) -> int:
    """Removes the records of old rounds."""
    return await _delete_page(connection, runs, runs.c.started_at < _before(days))


async def delete_old_audit_rows(connection: AsyncConnection, days: int) -> int:
    """Removes old rows of the audit log."""
    return await _delete_page(connection, audit, audit.c.at < _before(days))


async def delete_old_chats(connection: AsyncConnection, days: int) -> int:
    """Removes chats without new messages for so many days, with everything stored for them."""
    return await _delete_page(connection, chats, chats.c.updated_at < _before(days))


async def delete_expired_chats(connection: AsyncConnection) -> int:
    """Removes chats that have expired, with everything stored for them."""
    return await _delete_page(connection, chats, chats.c.expires_at <= func.now())


async def delete_past_tombstones(connection: AsyncConnection) -> None:
    """Removes the tombstones that do not stand any more."""
    await connection.execute(delete(tombstones).where(tombstones.c.until <= func.now()))


async def _delete_page(
    connection: AsyncConnection, table: Table, *which: ColumnElement[bool]
) -> int:
    ids = await _lock_page(connection, table, *which)
    if ids:
        await connection.execute(delete(table).where(in_values(table.c.id, ids)))
    return len(ids)


async def _lock_page(
    connection: AsyncConnection, table: Table, *which: ColumnElement[bool]
) -> list[int]:
    """Locks a page of rows; returns their ids."""
    size = _CHATS_PAGE if table is chats else PAGE
    query = select(table.c.id).where(*which).order_by(table.c.id).limit(size)
    locked = query.with_for_update(of=table, skip_locked=True)
    return list((await connection.execute(locked)).scalars())


def _before(days: int) -> ColumnElement[datetime]:
    return after_seconds(-days * _DAY)
