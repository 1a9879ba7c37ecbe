"""Stored rows on their way to another key: batch by batch, of all tenants.

A batch is one short transaction that locks its chat first, as an ingest and a publishing worker do,
so these wait for one batch at most. A row that has arrived is not touched again: whoever begins
anew goes on where the one before was killed. The way leads from any keys, or none, to what the
settings write now: another key, or plain rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    func,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import checkpoints as of_checkpoints
from service.storage import memories, messages, partials, runs, sealing, wishes
from service.storage.many import not_among
from service.storage.sealing import IS_HIDDEN, SEALED, Seal
from service.storage.tables import chats, checkpoints, sealing_keys, tenant_secrets
from service.storage.tables import messages as message_rows
from service.storage.tables import partials as partial_rows
from service.storage.tables import runs as run_rows
from service.storage.tenancy import ChatKey, of

BATCH = 200
"""Rows that one transaction may change."""
_CHATS = 500  # that are asked for at once

# Every value that may be sealed, and its plain column if that is another one.
_VALUES = (
    (message_rows.c.body, None),
    (message_rows.c.words, None),
    (checkpoints.c.sealed_summary, checkpoints.c.summary),
    (checkpoints.c.sealed_rules, checkpoints.c.rules),
    (checkpoints.c.sealed_record, checkpoints.c.record),
    (checkpoints.c.sealed_memory, None),
    (checkpoints.c.sealed_verdict, None),
    (partial_rows.c.sealed_memory, None),
    (run_rows.c.sealed_reason, run_rows.c.reason),
    (chats.c.sealed_wishes, None),
    (tenant_secrets.c.digest_key, None),
)
# A reference has the form of its message's own digest, or SQL would see two different ones.
_FOLLOW = [
    text(
        f"update {table} set {digest} = moved.fresh"
        " from unnest(:ids, :stored, :fresh) as moved (id, stored, fresh)"
        f" where {table}.tenant_id = :tenant and {table}.{chat} = :chat"
        f" and {table}.{message} = moved.id and {table}.{digest} = moved.stored"
    ).bindparams(*(bindparam(name, type_=ARRAY(Text)) for name in ("ids", "stored", "fresh")))
    for table, chat, message, digest in (
        (checkpoints.name, "chat_id", "covered_until", "covered_digest"),
        (partial_rows.name, "chat_id", "message_id", "digest"),
        (chats.name, "id", "leaf_id", "leaf_digest"),
    )
]


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
    """Brings a batch of a chat's rows to what is written now.

    Returns:
        How many; 0 when all of the chat's rows have arrived.
    """
    lock = select(chats.c.id).where(*of(chat, chats)).with_for_update()
    if (await connection.execute(lock)).scalar_one_or_none() is None:
        return 0
    seal = await sealing.of(connection, chat.tenant)
    for work in (_messages, _checkpoints, _partial, _runs, _wishes):
        changed = await work(connection, chat, seal)
        if changed:
            return changed
    return 0


async def reseal_secrets(connection: AsyncConnection) -> None:
    """The same for the tenants' keys for digests."""
    rows = (await connection.execute(select(tenant_secrets.c.tenant_id))).scalars().all()
    for tenant in rows:
        seal = await sealing.of(connection, tenant)
        this = tenant_secrets.c.tenant_id == tenant
        query = select(tenant_secrets.c.digest_key).where(this).with_for_update()
        where = sealing.digest_key_of(tenant)
        digest_key = seal.open(where, (await connection.execute(query)).scalar_one())
        values = {"digest_key": seal.seal(where, digest_key)}
        await connection.execute(update(tenant_secrets).where(this).values(values))


async def held(connection: AsyncConnection) -> list[Held]:
    """How many values each key seals, and how many are plain. Reads every row."""
    found: dict[int | None, int] = {}
    for sealed, plain in _VALUES:
        is_sealed = func.get_byte(sealed, 0) == SEALED
        key = func.get_byte(sealed, 1)
        query = select(is_sealed, key, func.count()).where(sealed.is_not(None))
        for sealed_row, number, count in await connection.execute(query.group_by(is_sealed, key)):
            by = number if sealed_row else None
            found[by] = found.get(by, 0) + count
        if plain is not None:
            query_plain = select(func.count()).where(plain != "")
            found[None] = found.get(None, 0) + (await connection.execute(query_plain)).scalar_one()
    order = sorted(found, key=lambda number: number or 0)
    return [Held(number, found[number]) for number in order if found[number]]


async def forget_unused(connection: AsyncConnection, used: Sequence[int]) -> None:
    """Notes that no value is sealed with any other key than these: a start needs no other."""
    await connection.execute(delete(sealing_keys).where(not_among(sealing_keys.c.id, used)))


async def _messages(connection: AsyncConnection, chat: ChatKey, seal: Seal) -> int:
    columns = message_rows.c
    off = or_(
        _differs(columns.body, seal),
        _differs(columns.words, seal),
        _is_off(columns.digest, seal),
    )
    rows = await _batch(connection, message_rows, chat, off)
    if not rows:
        return 0
    changed = [_message(row, chat, seal) for row in rows]
    query = update(message_rows).where(
        *of(chat, message_rows), columns.message_id == bindparam("this")
    )
    names = ("body", "words", "digest", "fingerprint", "content_hash")
    query = query.values({name: bindparam(f"new_{name}") for name in names})
    await connection.execute(query, changed)
    moved = {
        "tenant": chat.tenant,
        "chat": chat.id,
        "ids": [row["message_id"] for row in rows],
        "stored": [row["digest"] for row in rows],
        "fresh": [one["new_digest"] for one in changed],
    }
    for statement in _FOLLOW:
        await connection.execute(statement, moved)
    return len(rows)


def _message(row: Mapping[Any, Any], chat: ChatKey, seal: Seal) -> dict[str, Any]:
    values: dict[str, Any] = {"this": row["message_id"]}
    for name in ("body", "words"):
        where = messages.place_of(chat, row["message_id"], name)
        value = row[name]
        values[f"new_{name}"] = value and seal.seal(where, seal.open(where, value))
    for name in ("digest", "fingerprint"):
        values[f"new_{name}"] = seal.hide(seal.show(row[name]))
    values["new_content_hash"] = seal.hide_hash(seal.show_hash(row["content_hash"]))
    return values


async def _checkpoints(connection: AsyncConnection, chat: ChatKey, seal: Seal) -> int:
    columns = checkpoints.c
    texts = (columns[name] for name in of_checkpoints.TEXTS)
    off = or_(
        *(_differs(columns[name], seal) for name in of_checkpoints.SEALED),
        *(_is_plain(text_column, seal) for text_column in texts),
        _lacks_memory(columns.sealed_memory, seal),
        _is_off(columns.covered_digest, seal),
    )
    rows = await _batch(connection, checkpoints, chat, off)
    for row in rows:
        plain = of_checkpoints.opened(row, seal, chat)
        values = of_checkpoints.stored(plain, seal, chat, row["id"])
        this = (*of(chat, checkpoints), columns.id == row["id"])
        await connection.execute(update(checkpoints).where(*this).values(values))
    return len(rows)


async def _partial(connection: AsyncConnection, chat: ChatKey, seal: Seal) -> int:
    columns = partial_rows.c
    off = or_(
        _differs(columns.sealed_memory, seal),
        _lacks_memory(columns.sealed_memory, seal),
        _is_off(columns.digest, seal),
    )
    rows = await _batch(connection, partial_rows, chat, off)
    where = partials.place_of(chat)
    for row in rows:
        digest = seal.show(row["digest"])
        values = memories.stored(memories.opened(row, seal, where), seal, where)
        values["digest"] = messages.as_stored(chat, row["message_id"], digest, seal)
        this = of(chat, partial_rows)
        await connection.execute(update(partial_rows).where(*this).values(values))
    return len(rows)


async def _runs(connection: AsyncConnection, chat: ChatKey, seal: Seal) -> int:
    columns = run_rows.c
    off = or_(_differs(columns.sealed_reason, seal), _is_plain(columns.reason, seal))
    rows = await _batch(connection, run_rows, chat, off)
    for row in rows:
        where = runs.place_of(chat, row["id"])
        reason = seal.open_text(where, row["sealed_reason"], row["reason"])
        values = runs.stored_reason(where, reason, seal)
        this = (*of(chat, run_rows), columns.id == row["id"])
        await connection.execute(update(run_rows).where(*this).values(values))
    return len(rows)


async def _wishes(connection: AsyncConnection, chat: ChatKey, seal: Seal) -> int:
    columns = chats.c
    has_plain = and_(func.cardinality(columns.wishes) > 0, literal(seal.writes is not None))
    off = or_(_differs(columns.sealed_wishes, seal), has_plain)
    query = select(columns.wishes, columns.sealed_wishes).where(*of(chat, chats), off)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return 0
    values = wishes.stored(chat, wishes.opened(chat, *row, seal), seal)
    await connection.execute(update(chats).where(*of(chat, chats)).values(values))
    return 1


async def _batch(
    connection: AsyncConnection, table: Table, chat: ChatKey, off: ColumnElement[bool]
) -> Sequence[Mapping[Any, Any]]:
    # In no order: the chat is locked, and for an ORDER BY id with a LIMIT the planner walks through
    # the checkpoints of all chats.
    query = select(table).where(*of(chat, table), off).limit(BATCH).with_for_update()
    return (await connection.execute(query)).mappings().all()


def _differs(sealed: ColumnElement[Any], seal: Seal) -> ColumnElement[bool]:
    """Whether a value is not as it would be written now; null where there is none."""
    if seal.writes is None:
        return func.substring(sealed, 1, 1) == bytes((SEALED,))
    return func.substring(sealed, 1, 2) != bytes((SEALED, seal.writes))


def _is_plain(plain: ColumnElement[Any], seal: Seal) -> ColumnElement[bool]:
    """Whether a text stands plain that has to be sealed."""
    return and_(plain != "", literal(seal.writes is not None))


def _lacks_memory(sealed: ColumnElement[Any], seal: Seal) -> ColumnElement[bool]:
    """Whether a memory stands plain that has to be sealed: every row has one."""
    return and_(sealed.is_(None), literal(seal.writes is not None))


def _is_off(digest: ColumnElement[Any], seal: Seal) -> ColumnElement[bool]:
    """Whether a digest has the other form than the one that is written now."""
    return digest.like(IS_HIDDEN) if seal.writes is None else digest.not_like(IS_HIDDEN)
