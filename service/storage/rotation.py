"""Stored rows on their way to another key: batch by batch, of all tenants.

A batch is one short transaction that locks its chats first, as an ingest and a publishing worker
do, so these wait for one batch at most. A row that has arrived is not touched again: whoever begins
anew goes on where the one before was killed. The way leads from any keys, or none, to what the
settings write now: another key, or plain rows.

Several chats of a tenant share a batch: with one chat in each, sealing took as many round trips as
rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import checkpoints as of_checkpoints
from service.storage import messages, runs, sealing
from service.storage.sealing import SEALED, Seal
from service.storage.tables import chats, checkpoints, sealing_keys, tenant_secrets
from service.storage.tables import messages as message_rows
from service.storage.tables import runs as run_rows
from service.storage.tenancy import ChatKey
from service.storage.terms import among, not_among

BATCH = 200
"""Rows that one transaction may change."""
MOST_BYTES = 8 * 2**20
"""Of the texts of messages that one transaction reads; one message may have more."""
_CHATS = 500  # that are asked for at once
_TOGETHER = 20  # chats that share a transaction

# Every value that may be sealed.
_VALUES = (
    message_rows.c.body,
    *(checkpoints.c[name] for name in of_checkpoints.PACKED),
    run_rows.c.reason,
    tenant_secrets.c.secret,
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


def together(page: Sequence[ChatKey]) -> Iterator[list[ChatKey]]:
    """The chats of a page in groups that may share a batch: of one tenant, and not many."""
    for _, of_tenant in groupby(page, key=lambda chat: chat.tenant):
        its_chats = list(of_tenant)
        for first in range(0, len(its_chats), _TOGETHER):
            yield its_chats[first : first + _TOGETHER]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction did: how many rows it changed, and which chats it left out.

    With no row changed, all rows of the other chats have arrived.
    """

    rows: int
    busy: Sequence[ChatKey]


async def reseal(connection: AsyncConnection, tenant: int, group: Sequence[ChatKey]) -> Batch:
    """Brings a batch of rows of these chats of a tenant to what is written now.

    Of several chats, those that somebody works on are left out. For one by itself it waits: whoever
    waits while it holds others could be waited for.
    """
    ids = [chat.id for chat in group]
    lock = select(chats.c.id).where(chats.c.tenant_id == tenant, among(chats.c.id, ids))
    lock = lock.with_for_update(skip_locked=len(group) > 1)
    held_ids = list((await connection.execute(lock)).scalars())
    busy = [chat for chat in group if chat.id not in held_ids] if len(group) > 1 else []
    seal = await sealing.of(connection, tenant)
    batch = _Locked(tenant, held_ids)
    for work in (_messages, _checkpoints, _runs):
        changed = await work(connection, batch, seal)
        if changed:
            return Batch(changed, busy)
    return Batch(0, busy)


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
    values_by_key: dict[int | None, int] = {}
    for value in _VALUES:
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


@dataclass(frozen=True, slots=True)
class _Locked:
    """Chats of a tenant that this transaction holds."""

    tenant: int
    chats: list[int]

    def owner(self, row: Mapping[Any, Any]) -> ChatKey:
        return ChatKey(self.tenant, row["chat_id"])


async def _messages(connection: AsyncConnection, locked: _Locked, seal: Seal) -> int:
    columns = message_rows.c
    off = _differs(columns.body, seal)
    rows = await _rows(connection, _some_bytes(_batch(message_rows, locked, off)))
    changed = [_message(row, locked.owner(row), seal) for row in rows]
    query = _update_each(message_rows, locked, columns.message_id)
    return await _change(connection, query, changed)


def _message(row: Mapping[Any, Any], chat: ChatKey, seal: Seal) -> dict[str, Any]:
    where = messages.place_of(chat, row["message_id"])
    return _new(chat, row["message_id"], {"body": seal.seal(where, seal.open(where, row["body"]))})


async def _checkpoints(connection: AsyncConnection, locked: _Locked, seal: Seal) -> int:
    columns = checkpoints.c
    # Every row has a summary, and all of its values are written together.
    off = _differs(columns.summary, seal)
    rows = await _rows(connection, _batch(checkpoints, locked, off))
    changed = [_checkpoint(row, locked.owner(row), seal) for row in rows]
    return await _change(connection, _update_each(checkpoints, locked, columns.id), changed)


def _checkpoint(row: Mapping[Any, Any], chat: ChatKey, seal: Seal) -> dict[str, Any]:
    plain = of_checkpoints.opened(row, seal, chat)
    return _new(chat, row["id"], of_checkpoints.stored(plain, seal, chat, row["id"]))


async def _runs(connection: AsyncConnection, locked: _Locked, seal: Seal) -> int:
    columns = run_rows.c
    off = _differs(columns.reason, seal)
    rows = await _rows(connection, _batch(run_rows, locked, off))
    changed = [_run(row, locked.owner(row), seal) for row in rows]
    return await _change(connection, _update_each(run_rows, locked, columns.id), changed)


def _run(row: Mapping[Any, Any], chat: ChatKey, seal: Seal) -> dict[str, Any]:
    where = runs.place_of(chat, row["id"])
    return _new(chat, row["id"], {"reason": seal.seal(where, seal.open(where, row["reason"]))})


def _batch(table: Table, locked: _Locked, off: ColumnElement[bool]) -> Select[Any]:
    # In no order: the chats are locked, and for an ORDER BY id with a LIMIT the planner walks
    # through the checkpoints of all chats.
    of_these = (table.c.tenant_id == locked.tenant, among(table.c.chat_id, locked.chats))
    return select(table).where(*of_these, off).limit(BATCH).with_for_update()


def _some_bytes(batch: Select[Any]) -> Select[Any]:
    """The first messages of a batch up to `MOST_BYTES`, and at least one."""
    some = batch.subquery("some")
    # Not read for this: the length is beside what leads to a large value.
    size = func.octet_length(some.c.body)
    above = (func.sum(size).over(rows=(None, 0)) - size).label("above")
    summed = select(some, above).subquery("summed")
    return select(summed).where(summed.c.above < MOST_BYTES)


async def _rows(connection: AsyncConnection, query: Select[Any]) -> Sequence[Mapping[Any, Any]]:
    rows: Sequence[Mapping[Any, Any]] = (await connection.execute(query)).mappings().all()
    return rows


def _new(chat: ChatKey, this: int | str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What `_update_each` takes for one row."""
    return {"chat": chat.id, "this": this} | {f"new_{name}": at for name, at in values.items()}


def _update_each(table: Table, locked: _Locked, key: ColumnElement[Any]) -> Update:
    """An update of one row at a time, all of them in one round trip."""
    chat = table.c.chat_id == bindparam("chat")
    return update(table).where(table.c.tenant_id == locked.tenant, chat, key == bindparam("this"))


async def _change(
    connection: AsyncConnection, query: Update, changed: Sequence[Mapping[str, Any]]
) -> int:
    if changed:
        names = [name.removeprefix("new_") for name in changed[0] if name.startswith("new_")]
        fresh: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
        await connection.execute(query.values(fresh), changed)
    return len(changed)


def _differs(sealed: ColumnElement[Any], seal: Seal) -> ColumnElement[bool]:
    """Whether a value is not as it would be written now; null where there is none."""
    if seal.writes is None:
        return func.substring(sealed, 1, 1) == bytes((SEALED,))
    return func.substring(sealed, 1, 2) != bytes((SEALED, seal.writes))
