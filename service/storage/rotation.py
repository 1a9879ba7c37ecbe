"""Stored rows on their way to another key: chat by chat, batch by batch, of all tenants.

A batch is one short transaction that locks its chat first, as an ingest and a publishing worker do,
so these wait for one batch at most. What is left to do is seen from the rows: a rotation that was
killed goes on with the next call. Rows may be sealed with any keys, or plain, and become what the
settings write now: sealed with one key, or plain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Table, bindparam, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import chats as of_chats
from service.storage import checkpoints as of_checkpoints
from service.storage import sealing
from service.storage.sealing import SEALED, AssociatedData, Cipher
from service.storage.tables import (
    chats,
    checkpoints,
    messages,
    prompts,
    runs,
    sealing_keys,
    tenant_secrets,
)
from service.storage.tenancy import ChatKey, match_chat
from service.storage.terms import not_in_values

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
    """How many stored values are sealed with a key; those of key None are plain."""

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
    await connection.execute(select(chats.c.id).where(*match_chat(chat, chats)).with_for_update())
    cipher = await sealing.cipher_for(connection, chat.tenant)
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
    batch = select(table).where(*match_chat(chat, table), is_old).limit(BATCH).with_for_update()
    changed: list[dict[str, Any]] = []
    for row in (await connection.execute(batch)).mappings():
        new = {"row_key": row[columns.key]}
        for name in columns.names:
            aad = AssociatedData(table.name, name, chat, row[columns.key])
            new[f"new_{name}"] = cipher.encrypt(aad, cipher.decrypt(aad, row[name]))
        changed.append(new)
    if changed:
        is_row = table.c[columns.key] == bindparam("row_key")
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in columns.names}
        statement = update(table).where(*match_chat(chat, table), is_row).values(values)
        await connection.execute(statement, changed)
    return len(changed)


def _is_old(column: ColumnElement[Any], cipher: Cipher) -> ColumnElement[bool]:
    """Whether a value is not as it would be written now; null where there is none."""
    if cipher.writes is None:
        return func.substring(column, 1, 1) == bytes((SEALED,))
    return func.substring(column, 1, 2) != bytes((SEALED, cipher.writes))


async def reseal_secrets(connection: AsyncConnection) -> None:
    """Brings the tenants' secrets to what is written now."""
    rows = (await connection.execute(select(tenant_secrets).with_for_update())).all()
    for tenant, _, secret in rows:
        cipher, aad = await sealing.cipher_for(connection, tenant), sealing.secret_aad(tenant)
        values = {"secret": cipher.encrypt(aad, cipher.decrypt(aad, secret))}
        row = tenant_secrets.c.tenant_id == tenant
        await connection.execute(update(tenant_secrets).where(row).values(values))


async def count_values(connection: AsyncConnection) -> list[KeyUsage]:
    """How many values each key seals, and how many are plain. Reads every row."""
    columns = [table.c[name] for table, _, names in _SEALED_COLUMNS for name in names]
    values_by_key: dict[int | None, int] = {}
    for column in (*columns, tenant_secrets.c.secret):
        is_sealed = func.get_byte(column, 0) == SEALED
        second_byte = func.get_byte(column, 1)
        query = select(is_sealed, second_byte, func.count()).where(column.is_not(None))
        for sealed, number, count in await connection.execute(
            query.group_by(is_sealed, second_byte)
        ):
            key = number if sealed else None
            values_by_key[key] = values_by_key.get(key, 0) + count
    order = sorted(values_by_key, key=lambda key: key or 0)
    return [KeyUsage(key, values_by_key[key]) for key in order]


async def forget_unused_keys(connection: AsyncConnection, in_use: Sequence[int]) -> None:
    """Notes that no value is sealed with any other key than these: a start needs no other."""
    await connection.execute(delete(sealing_keys).where(not_in_values(sealing_keys.c.id, in_use)))
