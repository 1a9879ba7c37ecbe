"""Stored rows on their way to another key: chat by chat, batch by batch, of all tenants.

A batch is one short transaction that locks its chat first, as an ingest and a publishing worker do,
so these wait for one batch at most. A row that has arrived is not touched again: whoever begins
anew goes on where the one before was killed. The way leads from any keys, or none, to what the
settings write now: another key, or plain rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, Table, bindparam, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import chats as of_chats
from service.storage import checkpoints as of_checkpoints
from service.storage import sealing
from service.storage.sealing import SEALED, Seal, Where
from service.storage.tables import (
    chats,
    checkpoints,
    messages,
    prompts,
    runs,
    sealing_keys,
    tenant_secrets,
)
from service.storage.tenancy import ChatKey, of
from service.storage.terms import not_among

BATCH = 200
"""Rows that one transaction may change."""
MOST_BYTES = 8 * 2**20
"""Of texts that one transaction reads; one row may have more."""
_CHATS = 500  # that are asked for at once


class _Sealed(NamedTuple):
    """Rows of chats, what they are found by, and their sealed values, written together.

    The first value tells where a row stands: it is null in none that has others.
    """

    table: Table
    key: str
    values: Sequence[str]


_ROWS: Final = (
    _Sealed(messages, "message_id", ("body",)),
    _Sealed(checkpoints, "id", of_checkpoints.PACKED),
    _Sealed(runs, "id", ("reason",)),
    _Sealed(prompts, "id", ("form",)),
    _Sealed(prompts, "id", ("reply",)),
    *(_Sealed(chats, "id", (name,)) for name in of_chats.LABELS),
)


@dataclass(frozen=True, slots=True)
class Held:
    """How many stored values are sealed with a key, or are plain for None."""

    key: int | None
    values: int


async def chats_after(connection: AsyncConnection, after: int) -> list[ChatKey]:
    """The next chats of all tenants, in the order of their ids; none at the end."""
    query = select(chats.c.tenant_id, chats.c.id).where(chats.c.id > after)
    rows = await connection.execute(query.order_by(chats.c.id).limit(_CHATS))
    return [ChatKey(*row) for row in rows]


async def reseal(connection: AsyncConnection, chat: ChatKey) -> int:
    """Brings a batch of rows of a chat to what is written now.

    Returns:
        How many rows; none when all of them have arrived.
    """
    await connection.execute(select(chats.c.id).where(*of(chat, chats)).with_for_update())
    seal = await sealing.of(connection, chat.tenant)
    for sealed in _ROWS:
        changed = await _reseal_rows(connection, chat, sealed, seal)
        if changed:
            return changed
    return 0


async def _reseal_rows(
    connection: AsyncConnection, chat: ChatKey, sealed: _Sealed, seal: Seal
) -> int:
    table = sealed.table
    rows = (await connection.execute(_batch(chat, sealed, seal))).mappings().all()
    if not rows:
        return 0
    changed: list[dict[str, Any]] = []
    for row in rows:
        new = {"this": row[sealed.key]}
        for name in sealed.values:
            where = Where(table.name, name, chat, row[sealed.key])
            new[f"new_{name}"] = seal.seal(where, seal.open(where, row[name]))
        changed.append(new)
    each = update(table).where(*of(chat, table), table.c[sealed.key] == bindparam("this"))
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in sealed.values}
    await connection.execute(each.values(values), changed)
    return len(changed)


def _batch(chat: ChatKey, sealed: _Sealed, seal: Seal) -> Select[Any]:
    """The first rows that are not as they would be written now, up to `MOST_BYTES`, or one."""
    table, first = sealed.table, sealed.table.c[sealed.values[0]]
    # In no order: the chat is locked, and for an ORDER BY id with a LIMIT the planner walks through
    # the checkpoints of all chats.
    rows = select(table).where(*of(chat, table), _differs(first, seal))
    some = rows.limit(BATCH).with_for_update().subquery("some")
    # Not read for this: the length is beside what leads to a large value.
    size = func.octet_length(some.c[first.name])
    above = (func.sum(size).over(rows=(None, 0)) - size).label("above")
    summed = select(some, above).subquery("summed")
    return select(summed).where(summed.c.above < MOST_BYTES)


def _differs(sealed: ColumnElement[Any], seal: Seal) -> ColumnElement[bool]:
    """Whether a value is not as it would be written now; null where there is none."""
    if seal.writes is None:
        return func.substring(sealed, 1, 1) == bytes((SEALED,))
    return func.substring(sealed, 1, 2) != bytes((SEALED, seal.writes))


async def reseal_secrets(connection: AsyncConnection) -> None:
    """The same for the tenants' secrets."""
    rows = (await connection.execute(select(tenant_secrets.c.tenant_id))).scalars().all()
    for tenant in rows:
        seal = await sealing.of(connection, tenant)
        this = tenant_secrets.c.tenant_id == tenant
        query = select(tenant_secrets.c.secret).where(this).with_for_update()
        where = sealing.secret_place(tenant)
        secret = seal.open(where, (await connection.execute(query)).scalar_one())
        values = {"secret": seal.seal(where, secret)}
        await connection.execute(update(tenant_secrets).where(this).values(values))


async def held(connection: AsyncConnection) -> list[Held]:
    """How many values each key seals, and how many are plain. Reads every row."""
    columns = [sealed.table.c[name] for sealed in _ROWS for name in sealed.values]
    values_by_key: dict[int | None, int] = {}
    for value in (*columns, tenant_secrets.c.secret):
        is_sealed = func.get_byte(value, 0) == SEALED
        key = func.get_byte(value, 1)
        query = select(is_sealed, key, func.count()).where(value.is_not(None))
        for sealed_row, number, count in await connection.execute(query.group_by(is_sealed, key)):
            by = number if sealed_row else None
            values_by_key[by] = values_by_key.get(by, 0) + count
    order = sorted(values_by_key, key=lambda number: number or 0)
    return [Held(number, values_by_key[number]) for number in order if values_by_key[number]]


async def forget_unused(connection: AsyncConnection, in_use: Sequence[int]) -> None:
    """Notes that no value is sealed with any other key than these: a start needs no other."""
    await connection.execute(delete(sealing_keys).where(not_among(sealing_keys.c.id, in_use)))
