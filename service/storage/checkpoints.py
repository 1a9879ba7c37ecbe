"""Checkpoints: append-only versions, published by compare and swap.

Of several versions for one boundary, the messages at and below it say which one serves: they point
to it. One that was put out of service is `retired`, so that a message which an undone edit brings
back does not find it by its digest.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    ScalarSelect,
    and_,
    bindparam,
    delete,
    func,
    null,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import CannotOpen
from service.planning.plan import Checkpoint
from service.storage import chats, codec, memories, messages, sealing, work
from service.storage.sealing import Seal, Where
from service.storage.tables import INTERIM, checkpoints
from service.storage.tables import messages as message_rows
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among, not_among
from service.summarising import message
from service.summarising.memory import Memory

_OF_ITS_CHAT = (
    *("id", "tenant_id", "chat_id", "parent_id", "ancestors", "savings"),
    *("version", "created_at", "retired_at"),
)
CONTENT = [column for column in checkpoints.c if column.name not in _OF_ITS_CHAT]
"""The columns that say the same in whatever chat and version, once they are opened."""
_READ = ("memory", "summary")  # for a memory: see `storage.memories`
PACKED = (*_READ, "verdict")
"""The columns that are packed, sealed or not."""

# In the order of `planning.Checkpoint`.
_PLANNED = (
    checkpoints.c.id,
    checkpoints.c.covered_until,
    checkpoints.c.covered_digest,
    checkpoints.c.covered_messages,
    checkpoints.c.covered_tokens,
    checkpoints.c.tokens,
    checkpoints.c.parent_id,
)
# An operator who serves one wants it as it is, whatever its kind.
_WANTED_AS_IT_IS = checkpoints.c.served_by.is_not(None)

# A checkpoint and those that it grew from, down to the one that is stored whole: ids rise to the
# child.
_LINE = text("""
select line.id, line.memory, line.summary, cardinality(grown.ids) as length
from (
    select (made.ancestors || made.id)[cardinality(made.ancestors) / :whole * :whole + 1:] as ids
    from checkpoints made
    where made.tenant_id = :tenant and made.chat_id = :chat and made.id = :checkpoint
) grown
join checkpoints line
    on line.tenant_id = :tenant and line.chat_id = :chat and line.id = any(grown.ids)
order by line.id
""")
# A message falls back to the deepest kept ancestor of its checkpoint: ids rise to the child.
_LEAD_TO_KEPT = text("""
update messages m
set checkpoint_id = (select max(a) from unnest(c.ancestors) a where a = any(:keep))
from checkpoints c
where m.tenant_id = :tenant and m.chat_id = :chat
    and c.tenant_id = :tenant and c.chat_id = :chat
    and c.id = m.checkpoint_id and not c.id = any(:keep)
""").bindparams(bindparam("keep", type_=ARRAY(BigInteger)))


@dataclass(frozen=True, slots=True)
class Made:
    """One checkpoint without its texts.

    Those of one parent and boundary are versions of each other; `serving` says that some message
    leads to this one, or to one that grew from it. `verdict` is what the publish gate found, and
    which operator corrected or served it.
    """

    id: int
    parent_id: int | None
    serving: bool
    version: int
    covered_until: str
    covered_messages: int
    covered_tokens: int
    tokens: int
    kind: str
    summariser: str
    prompt_version: str
    verdict: dict[str, Any]
    created_at: datetime


class Packed(NamedTuple):
    """The texts of a checkpoint about to be added; `number` is its id, which its summary names."""

    number: int
    summary: bytes
    memory: bytes


@dataclass(frozen=True, slots=True)
class Fresh:
    """A checkpoint about to be published. `verdict` is what the gate found, as JSON.

    `replaces` are interim ones that it is to serve in place of.
    """

    parent: int
    until: messages.MessageRow
    kind: str
    texts: Packed
    tokens: int
    summariser: str
    prompt_version: str
    verdict: dict[str, Any] = field(default_factory=dict)
    replaces: Collection[int] = ()


class Along(NamedTuple):
    """The checkpoints of a path: those that others grow from, and the interim ones.

    An interim one was made by code at once, and serves until a summariser has read what it covers.
    """

    settled: list[Checkpoint]
    interim: list[Checkpoint]


class Lineage(NamedTuple):
    """A checkpoint and those it grew from, shallowest first.

    `savings` is what each of them saves a request, in tokens: the running maximum.
    """

    ids: list[int]
    savings: list[int]


async def find(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int | None
) -> Checkpoint | None:
    """A checkpoint as planning sees it; None when there is none of this id."""
    query = select(*_PLANNED).where(*of(chat, checkpoints), checkpoints.c.id == checkpoint)
    row = (await connection.execute(query)).one_or_none()
    return Checkpoint(*row) if row else None


async def everyone(connection: AsyncConnection, chat: ChatKey) -> list[Made]:
    """The chat's checkpoints, oldest first."""
    seal = await sealing.of(connection, chat.tenant)
    query = select(*_made(chat)).where(*of(chat, checkpoints)).order_by(checkpoints.c.id)
    rows = (await connection.execute(query)).mappings()
    return [_as_made(row, seal, chat) for row in rows]


async def summary(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int
) -> tuple[Made, str] | None:
    """One checkpoint and its summary message; None when there is none of this id."""
    query = select(*_made(chat), checkpoints.c.summary)
    this = (*of(chat, checkpoints), checkpoints.c.id == checkpoint)
    row = (await connection.execute(query.where(*this))).mappings().one_or_none()
    if row is None:
        return None
    seal = await sealing.of(connection, chat.tenant)
    packed = seal.open(place_of(chat, checkpoint, "summary"), row["summary"])
    return _as_made(row, seal, chat), codec.unpack_text(packed)


async def ancestors(connection: AsyncConnection, chat: ChatKey) -> dict[int, list[int]]:
    """What each of the chat's checkpoints grew from, oldest first, by id."""
    query = select(checkpoints.c.id, checkpoints.c.ancestors).where(*of(chat, checkpoints))
    return {row.id: row.ancestors for row in await connection.execute(query)}


async def along(connection: AsyncConnection, chat: ChatKey, ids: Collection[int]) -> Along:
    """Those of a path, of which `ids` are what its messages point to."""
    interim = and_(checkpoints.c.kind == INTERIM, ~_WANTED_AS_IT_IS)
    query = select(interim, *_PLANNED).where(*of(chat, checkpoints), among(checkpoints.c.id, ids))
    on_path = Along([], [])
    for is_interim, *row in (await connection.execute(query)).all():
        kind = on_path.interim if is_interim else on_path.settled
        kind.append(Checkpoint(*row))
    return on_path


async def memory(connection: AsyncConnection, chat: ChatKey, checkpoint: int) -> Memory | None:
    """What a stored checkpoint says; None when it is not stored any more."""
    line = await _memories(connection, chat, checkpoint)
    return await asyncio.to_thread(memories.unpacked, line) if line else None


async def _memories(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int
) -> Sequence[memories.Stored]:
    """What a checkpoint's memory is read from, packed; nothing when it is not stored any more."""
    parameters = {"tenant": chat.tenant, "chat": chat.id, "checkpoint": checkpoint}
    query = await connection.execute(_LINE, parameters | {"whole": memories.WHOLE_EVERY})
    rows = query.mappings().all()
    if rows and len(rows) != rows[0]["length"]:
        raise CannotOpen(f"checkpoint {checkpoint} grew from one that is not stored any more")
    seal = await sealing.of(connection, chat.tenant)
    return [
        memories.Stored(*(seal.open(place_of(chat, row.id, name), row[name]) for name in _READ))
        for row in rows
    ]


async def pack(
    engine: AsyncEngine, chat: ChatKey, parent: int, memory: Memory, text: str
) -> Packed:
    """Packs the texts of a checkpoint that grew from `parent`, and takes an id for it.

    In a thread and in no transaction, because they may be long; `text` is without the id.
    """
    async with engine.connect() as connection:
        number = await next_id(connection)
        line = await _memories(connection, chat, parent)
    return await asyncio.to_thread(_packed, number, line, memory, text)


def _packed(number: int, line: Sequence[memories.Stored], memory: Memory, text: str) -> Packed:
    summary = message.named(text, number)
    return Packed(number, codec.pack_text(summary), memories.packed(memory, summary, line))


async def publish(connection: AsyncConnection, lease: work.Lease, fresh: Fresh) -> int | None:
    """Publishes a checkpoint, unless what it was planned on has changed.

    In one transaction: the lease must be ours, no reset in between, the covered message still has
    the digest that was planned on, and the parent still exists.

    Returns:
        The id of the checkpoint, or None when it was refused.
    """
    chat = lease.chat
    # Locks the chat, so that what is checked below still holds at the end of the transaction.
    if not await work.holds(connection, lease):
        return None
    until = await _as_read(connection, chat, fresh.until.message_id, fresh.until.digest)
    if until is None:
        return None
    line = await _line(connection, chat, fresh.parent)
    if line is None:
        return None
    number = fresh.texts.number
    await add(connection, chat, line, number, _content(fresh, until))
    await messages.point_to(connection, chat, until.message_id, number, fresh.replaces)
    await _retire_replaced(connection, chat, fresh)
    await chats.note_leaf(connection, chat)
    return number


async def correct(
    connection: AsyncConnection,
    chat: ChatKey,
    original: int,
    texts: Packed,
    verdict: dict[str, Any],
    **changed: object,
) -> None:
    """Adds a version of a checkpoint that says something else. No message points to it yet.

    `original` exists, and `changed` are the other columns that differ.
    """
    query = select(checkpoints).where(*of(chat, checkpoints), checkpoints.c.id == original)
    row = (await connection.execute(query)).mappings().one()
    content = opened(row, await sealing.of(connection, chat.tenant), chat)
    content |= {"summary": texts.summary, "memory": texts.memory}
    content |= {"verdict": codec.pack(verdict), "served_by": None} | changed
    # The last of the savings is the original's own.
    grew_from = Lineage(row["ancestors"], row["savings"][:-1])
    await add(connection, chat, grew_from, texts.number, content)


async def serve(connection: AsyncConnection, chat: ChatKey, checkpoint: int, by: str) -> bool:
    """Makes a checkpoint the one that serves at its boundary and below, as `by` wants it.

    All others that reach as far are retired, but those of branches that go off above the boundary.
    One whose own boundary was edited since may be of either, and is retired as well: should the
    edit be undone, a new one is made.

    Returns:
        Whether it was done. It is not when the message at its boundary is not stored as the summary
        has read it.
    """
    checkpoint_row = await find(connection, chat, checkpoint)
    if checkpoint_row is None or not await _as_read(
        connection, chat, checkpoint_row.until, checkpoint_row.digest
    ):
        return False
    await messages.point_to(connection, chat, checkpoint_row.until, checkpoint, None)
    await _retire_others(connection, chat, checkpoint_row)
    this = (*of(chat, checkpoints), checkpoints.c.id == checkpoint)
    in_service = update(checkpoints).where(*this).values(retired_at=null(), served_by=by)
    await connection.execute(in_service)
    # Work under way goes on from a checkpoint that may serve no more.
    await chats.fence(connection, chat)
    await chats.note_leaf(connection, chat)
    return True


async def add(
    connection: AsyncConnection, chat: ChatKey, line: Lineage, number: int, content: dict[str, Any]
) -> Lineage:
    """Inserts checkpoint `number`, which grew from the last one of `line`, as the next version.

    `content` are the columns that do not depend on the chat, not sealed yet. No message points to
    it yet.

    Returns:
        The line that ends with it.
    """
    parent = line.ids[-1] if line.ids else 0
    saved = content["covered_tokens"] - content["tokens"]
    # The hot read bisects the savings, which therefore never fall along a line.
    savings = [*line.savings, max([*line.savings[-1:], saved])]
    seal = await sealing.of(connection, chat.tenant)
    version = _next_version(chat, parent, content["covered_digest"])
    grown = {"parent_id": parent, "ancestors": line.ids, "savings": savings, "version": version}
    values = chat.columns | grown | stored(content, seal, chat, number) | {"id": number}
    query = insert(checkpoints).values(values).returning(checkpoints.c.savings)
    return Lineage([*line.ids, number], (await connection.execute(query)).scalar_one())


def stored(plain: Mapping[str, Any], seal: Seal, chat: ChatKey, number: int) -> dict[str, Any]:
    """The content of a checkpoint as it is stored: its texts sealed, or as they are."""
    texts = {name: seal.seal(place_of(chat, number, name), plain[name]) for name in PACKED}
    return {**plain, **texts}


def opened(row: Mapping[Any, Any], seal: Seal, chat: ChatKey) -> dict[str, Any]:
    """The content of a stored checkpoint, not sealed any more."""
    number = row["id"]
    content = {column.name: row[column.name] for column in CONTENT}
    for name in PACKED:
        content[name] = seal.open(place_of(chat, number, name), row[name])
    return content


def place_of(chat: ChatKey, number: int, column: str) -> Where:
    """Where a part of a checkpoint is sealed."""
    return Where(checkpoints.name, column, chat, number)


def _as_made(row: Mapping[Any, Any], seal: Seal, chat: ChatKey) -> Made:
    """A row of `_made`."""
    fields = {name: row[name] for name in Made.__dataclass_fields__}
    verdict = codec.unpack(seal.open(place_of(chat, row["id"], "verdict"), row["verdict"]))
    served = {"served_by": row["served_by"]} if row["served_by"] else {}
    return Made(**fields | {"verdict": verdict | served})


def _next_version(chat: ChatKey, parent: int, digest: str) -> ScalarSelect[int]:
    """The next version's number among those of one parent and boundary."""
    versions = select(func.coalesce(func.max(checkpoints.c.version), 0) + 1).where(
        *of(chat, checkpoints),
        checkpoints.c.parent_id == parent,
        checkpoints.c.covered_digest == digest,
    )
    return versions.scalar_subquery()


async def drop_all_but(connection: AsyncConnection, chat: ChatKey, keep: Collection[int]) -> int:
    """Deletes the chat's checkpoints but `keep` (one and its ancestors).

    Work that is under way is fenced.

    Returns:
        How many were deleted.
    """
    parameters = {"tenant": chat.tenant, "chat": chat.id, "keep": list(keep)}
    # Before they are deleted: their rows say to which ancestor the messages fall back.
    await connection.execute(_LEAD_TO_KEPT, parameters)
    rest = delete(checkpoints).where(*of(chat, checkpoints), not_among(checkpoints.c.id, keep))
    count = (await connection.execute(rest)).rowcount
    await chats.fence(connection, chat)
    await chats.note_leaf(connection, chat)
    return count


def _made(chat: ChatKey) -> list[ColumnElement[Any]]:
    """The fields of `Made`, its verdict as it is stored."""
    others: dict[str, ColumnElement[Any]] = {
        "parent_id": func.nullif(checkpoints.c.parent_id, 0),
        "serving": _serving(chat),
    }
    fields = [
        others[name].label(name) if name in others else checkpoints.c[name]
        for name in Made.__dataclass_fields__
    ]
    return [*fields, checkpoints.c.served_by]


def _serving(chat: ChatKey) -> ColumnElement[bool]:
    pointed_to = select(message_rows.c.checkpoint_id).where(*of(chat, message_rows))
    head = checkpoints.alias("head")
    lines = select(func.unnest(func.array_append(head.c.ancestors, head.c.id))).where(
        *of(chat, head), head.c.id.in_(pointed_to)
    )
    return checkpoints.c.id.in_(lines)


def _content(fresh: Fresh, until: messages.MessageRow) -> dict[str, Any]:
    """The columns of a new checkpoint that do not depend on the chat."""
    return {
        "covered_until": until.message_id,
        "covered_digest": until.digest,
        "covered_messages": until.depth,
        "covered_tokens": until.path_tokens,
        "kind": fresh.kind,
        "tokens": fresh.tokens,
        "summariser": fresh.summariser,
        "prompt_version": fresh.prompt_version,
        "verdict": codec.pack(fresh.verdict),
        "summary": fresh.texts.summary,
        "memory": fresh.texts.memory,
    }


async def _as_read(
    connection: AsyncConnection, chat: ChatKey, message_id: str, digest: str
) -> messages.MessageRow | None:
    """The message, if it is stored as it was read, and with it the whole path above."""
    row = (await messages.find(connection, chat, [message_id])).get(message_id)
    return row if row and row.digest == digest else None


async def next_id(connection: AsyncConnection) -> int:
    """The id of a checkpoint that is about to be added."""
    sequence = func.pg_get_serial_sequence(checkpoints.name, checkpoints.c.id.name)
    number: int = (await connection.execute(select(func.nextval(sequence)))).scalar_one()
    return number


async def _line(connection: AsyncConnection, chat: ChatKey, last: int) -> Lineage | None:
    """The line that ends with the checkpoint `last`, empty for 0; None when that was deleted."""
    if not last:
        return Lineage([], [])
    query = select(checkpoints.c.ancestors, checkpoints.c.savings)
    this = (*of(chat, checkpoints), checkpoints.c.id == last)
    row = (await connection.execute(query.where(*this))).one_or_none()
    return Lineage([*row.ancestors, last], row.savings) if row else None


async def _retire_others(connection: AsyncConnection, chat: ChatKey, newest: Checkpoint) -> None:
    """Takes those out of service that reach as far as `newest`, but those of other branches."""
    on_another_branch = select(message_rows).where(
        *of(chat, message_rows),
        message_rows.c.message_id == checkpoints.c.covered_until,
        message_rows.c.digest == checkpoints.c.covered_digest,
        message_rows.c.message_id.not_in(messages.subtree(chat, [newest.until])),
    )
    others = (
        *of(chat, checkpoints),
        checkpoints.c.id != newest.id,
        checkpoints.c.covered_messages >= newest.messages,
        checkpoints.c.retired_at.is_(None),
        ~on_another_branch.exists(),
    )
    await connection.execute(update(checkpoints).where(*others).values(retired_at=func.now()))


async def _retire_replaced(connection: AsyncConnection, chat: ChatKey, fresh: Fresh) -> None:
    """Takes those out of service that `fresh` replaces.

    One stays when a branch that goes off above its boundary needs it. The messages that led to one
    fall back to the deepest one left.
    """
    if not fresh.replaces:
        return
    replaced = (*of(chat, checkpoints), among(checkpoints.c.id, fresh.replaces))
    pointing = select(message_rows).where(
        *of(chat, message_rows), message_rows.c.checkpoint_id == checkpoints.c.id
    )
    above = messages.above(chat, fresh.until.message_id)
    used_elsewhere = pointing.where(message_rows.c.message_id.not_in(above)).exists()
    obsolete = select(checkpoints.c.id).where(*replaced, ~used_elsewhere)
    retiring = list((await connection.execute(obsolete)).scalars())
    await messages.lead_back(connection, chat, fresh.until.message_id, retiring)
    # Only now: leading back has made some of them unused.
    unused = (*replaced, ~pointing.exists())
    await connection.execute(update(checkpoints).where(*unused).values(retired_at=func.now()))
