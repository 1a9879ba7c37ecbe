"""Removes old rows of all tenants, and re-seals stored values with the newest encryption key.

Each function of retention removes one page in the caller's short transaction, so nobody waits long
for its locks, and returns the number of rows, 0 at the end. It leaves a row that somebody else has
locked (another round, a worker, an ingest) for the next time. Ages are in days.

A rotation pages through all chats and then works chat by chat, so it may be stopped at any time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Table, any_, bindparam, case, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import chats as of_chats
from service.storage import checkpoints as of_checkpoints
from service.storage import sealing
from service.storage.sealing import SEALED, AssociatedData, Cipher
from service.storage.tables import (
    ChatKey,
    after_seconds,
    audit,
    chats,
    checkpoints,
    in_values,
    match_chat,
    messages,
    not_in_values,
    prompts,
    runs,
    sealing_keys,
    tenant_secrets,
    tombstones,
)

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
    return list(await connection.scalars(locked))


def _before(days: int) -> ColumnElement[datetime]:
    return after_seconds(-days * _DAY)


BATCH = 50
"""Rows that one transaction changes. A body may have megabytes, and all of them are in memory."""
_CHATS = 500  # that are asked for at once


class _SealedColumns(NamedTuple):
    """Sealed columns of a table that are written together, and the column that tells rows apart.

    The first one tells what a row is sealed with: it is null in no row that has one of the others.
    """

    table: Table
    key: str
    names: Sequence[str]


_SEALED_COLUMNS: Final = (
    _SealedColumns(messages, "message_id", ("body",)),
    _SealedColumns(checkpoints, "id", of_checkpoints.PACKED),
    _SealedColumns(runs, "id", ("reason",)),
    _SealedColumns(prompts, "id", ("form",)),
    _SealedColumns(prompts, "id", ("reply",)),
    *(_SealedColumns(chats, "id", (name,)) for name in of_chats.LABELS),
)


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """The number of stored values that are sealed with a key; those of key None are plain."""

    key: int | None
    values: int


async def list_chats(connection: AsyncConnection, after: int) -> list[ChatKey]:
    """The next chats of all tenants, in the order of their ids; none at the end."""
    query = select(chats.c.tenant_id, chats.c.id).where(chats.c.id > after)
    rows = await connection.execute(query.order_by(chats.c.id).limit(_CHATS))
    return [ChatKey(*row) for row in rows]


async def reseal(connection: AsyncConnection, chat: ChatKey) -> int:
    """Brings a batch of rows of a chat to what is written now.

    Returns:
        How many rows were changed; 0 when nothing of the chat is left to do.
    """
    await connection.execute(select(chats.c.id).where(match_chat(chat, chats)).with_for_update())
    cipher = await sealing.find_cipher(connection, chat.tenant)
    for columns in _SEALED_COLUMNS:
        changed = await _reseal_rows(connection, chat, columns, cipher)
        if changed:
            return changed
    return 0


async def _reseal_rows(
    connection: AsyncConnection, chat: ChatKey, columns: _SealedColumns, cipher: Cipher
) -> int:
    table = columns.table
    # In no order: the chat is locked, and for an ORDER BY id with a LIMIT the planner walks through
    # the checkpoints of all chats.
    is_old = _is_old(table.c[columns.names[0]], cipher)
    batch = select(table).where(match_chat(chat, table), is_old).limit(BATCH).with_for_update()
    rows = (await connection.execute(batch)).mappings()
    changed = [_reseal_row(row, chat, columns, cipher) for row in rows]
    if changed:
        is_row = table.c[columns.key] == bindparam("row_key")
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in columns.names}
        resealed = update(table).where(match_chat(chat, table), is_row).values(values)
        await connection.execute(resealed, changed)
    return len(changed)


def _reseal_row(
    row: Mapping[Any, Any], chat: ChatKey, columns: _SealedColumns, cipher: Cipher
) -> dict[str, Any]:
    """The parameters of the row's update: its key, and its values as they are written now."""
    key = row[columns.key]
    parameters = {"row_key": key}
    for name in columns.names:
        aad = AssociatedData(columns.table.name, name, chat, key)
        plain = cipher.decrypt(aad, row[name])
        parameters[f"new_{name}"] = cipher.encrypt(aad, plain)
    return parameters


def _is_old(column: ColumnElement[Any], cipher: Cipher) -> ColumnElement[bool]:
    """Whether a value is not as it would be written now; null where there is none."""
    if cipher.writes is None:
        return func.substring(column, 1, 1) == bytes((SEALED,))
    return func.substring(column, 1, 2) != bytes((SEALED, cipher.writes))


async def reseal_secrets(connection: AsyncConnection) -> None:
    """Brings the tenants' secrets to what is written now."""
    rows = (await connection.execute(select(tenant_secrets).with_for_update())).all()
    for tenant, _, secret in rows:
        cipher = await sealing.find_cipher(connection, tenant)
        aad = sealing.make_secret_aad(tenant)
        sealed = cipher.encrypt(aad, cipher.decrypt(aad, secret))
        row = update(tenant_secrets).where(tenant_secrets.c.tenant_id == tenant)
        await connection.execute(row.values(secret=sealed))


async def count_values(connection: AsyncConnection) -> list[KeyUsage]:
    """The number of values that each key seals, and of plain ones. It reads every row."""
    columns: list[ColumnElement[Any]] = []
    for table, _, names in _SEALED_COLUMNS:
        columns += [table.c[name] for name in names]
    values_by_key: Counter[int | None] = Counter()
    for column in (*columns, tenant_secrets.c.secret):
        is_sealed = func.get_byte(column, 0) == SEALED
        # The second byte of a plain value is no key.
        key_id = case((is_sealed, func.get_byte(column, 1)))
        query = select(key_id, func.count()).where(column.is_not(None)).group_by(key_id)
        for key, count in await connection.execute(query):
            values_by_key[key] += count
    order = sorted(values_by_key, key=lambda key: key or 0)
    return [KeyUsage(key, values_by_key[key]) for key in order]


async def forget_unused_keys(connection: AsyncConnection, in_use: Sequence[int]) -> None:
    """Notes that no value is sealed with any other key than these: a start needs no other."""
    await connection.execute(delete(sealing_keys).where(not_in_values(sealing_keys.c.id, in_use)))
