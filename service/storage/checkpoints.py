"""Checkpoints: append-only versions, published by compare and swap. And drafts: how far a long turn has been read.

Of several versions for one boundary, the messages at and below it say which one serves: they point
to it. One that was put out of service is `retired`, so that a message which an undone edit brings
back does not find it by its digest.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import and_, delete, func, null, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.planning import Checkpoint, PartialTurn, Position
from service.storage import chats, memories, messages, work
from service.storage.many import among
from service.storage.tables import checkpoints, partials
from service.storage.tables import messages as message_rows
from service.storage.tenancy import ChatKey, of
from service.summarising import message
from service.summarising.memory import Memory
from service.summarising.message import Rendered

_OF_ITS_CHAT = (
    *("id", "tenant_id", "chat_id", "parent_id", "ancestors", "savings"),
    *("version", "created_at", "retired_at"),
)
_PLANNED = [
    checkpoints.c[name]
    for name in (
        "id",
        "covered_until",
        "covered_digest",
        "covered_messages",
        "covered_tokens",
        "tokens",
    )
]
INTERIM = "interim"
CONTENT = [column for column in checkpoints.c if column.name not in _OF_ITS_CHAT]
"""The columns that say the same in whatever chat and version."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """A checkpoint about to be published. `verdict` is what the gate found, as JSON.

    `replaces` are those that it is to serve in place of, none of which another grew from.
    """

    parent: int
    until: messages.Row
    kind: str
    memory: Memory
    rendered: Rendered
    tokens: int
    summariser: str
    prompt_version: str
    verdict: dict[str, Any] = field(default_factory=dict)
    replaces: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Degraded:
    """A checkpoint that the built-in summariser wrote in place of the LLM.

    `parent` is what it grew from, 0 for nothing; `siblings` counts the degraded ones of that
    parent, itself included.
    """

    parent: int
    siblings: int


class Along(NamedTuple):
    """The checkpoints of a path: those that others grow from, and the interim ones.

    An interim one was made by code at once, and serves until a summariser has read what it covers.
    """

    settled: list[Checkpoint]
    interim: list[Checkpoint]


class Line(NamedTuple):
    """A checkpoint and those it grew from, shallowest first, and what each saves: the running maximum."""

    ids: list[int]
    savings: list[int]


async def find(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int | None
) -> Checkpoint | None:
    """A checkpoint as planning sees it; None when there is none of this id."""
    query = select(*_PLANNED).where(*of(chat, checkpoints), checkpoints.c.id == checkpoint)
    row = (await connection.execute(query)).one_or_none()
    return Checkpoint(*row) if row else None


async def along(connection: AsyncConnection, chat: ChatKey, ids: Collection[int]) -> Along:
    """Those of a path, of which `ids` are what its messages point to."""
    interim = and_(checkpoints.c.kind == INTERIM, ~checkpoints.c.verdict.has_key("served_by"))
    query = select(interim, *_PLANNED).where(*of(chat, checkpoints), among(checkpoints.c.id, ids))
    made = Along([], [])
    for is_interim, *row in (await connection.execute(query)).all():
        (made.interim if is_interim else made.settled).append(Checkpoint(*row))
    return made


async def memory(connection: AsyncConnection, chat: ChatKey, checkpoint: int) -> Memory | None:
    """What a stored checkpoint says; None when it is not stored any more."""
    query = select(*memories.COLUMNS).where(*of(chat, checkpoints), checkpoints.c.id == checkpoint)
    row = (await connection.execute(query)).mappings().one_or_none()
    return memories.memory_of(row) if row else None


async def degraded(connection: AsyncConnection, chat: ChatKey, checkpoint: int) -> Degraded | None:
    """Where a degraded checkpoint stands; None when this one is of another kind, or an operator wants it as it is."""
    sibling = checkpoints.alias()
    siblings = select(func.count()).where(
        *of(chat, sibling),
        sibling.c.parent_id == checkpoints.c.parent_id,
        sibling.c.kind == "degraded",
    )
    query = select(checkpoints.c.parent_id, siblings.scalar_subquery()).where(
        *of(chat, checkpoints),
        checkpoints.c.id == checkpoint,
        checkpoints.c.kind == "degraded",
        ~checkpoints.c.verdict.has_key("served_by"),
    )
    row = (await connection.execute(query)).one_or_none()
    return Degraded(*row) if row else None


async def partial(
    connection: AsyncConnection, chat: ChatKey
) -> tuple[str, PartialTurn, Memory] | None:
    """The chat's draft: the message it stands in, its place, and what has been read so far.

    The place's message index is for the caller to fill in.
    """
    row = (
        (await connection.execute(select(partials).where(*of(chat, partials))))
        .mappings()
        .one_or_none()
    )
    if row is None:
        return None
    position = Position(0, row["step"], row["piece"])
    place = PartialTurn(row["base_id"] or None, row["digest"], position, row["pieces"])
    return row["message_id"], place, memories.memory_of(row)


async def save_partial(
    connection: AsyncConnection,
    lease: work.Lease,
    message_id: str,
    place: PartialTurn,
    so_far: Memory,
) -> bool:
    """Keeps what has been read of a long turn; False when the lease is lost."""
    if not await work.holds(connection, lease):
        return False
    values = {
        "base_id": place.base or 0,
        "message_id": message_id,
        "digest": place.digest,
        "step": place.position.step,
        "piece": place.position.piece,
        "pieces": place.pieces,
        **memories.columns(so_far),
    }
    statement = insert(partials).values(**lease.chat.columns, **values)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["chat_id"], set_=values)
    )
    return True


async def publish(connection: AsyncConnection, lease: work.Lease, fresh: Fresh) -> int | None:
    """Publishes a checkpoint, unless what it was planned on has changed.

    In one transaction: the lease must be ours, no reset in between, the covered message still has
    the digest that was planned on, and the parent still exists.

    Returns:
        The id of the checkpoint, or None when it was refused.
    """
    if not await work.holds(connection, lease):
        return None
    rows = await messages.find(connection, lease.chat, [fresh.until.message_id])
    row = rows.get(fresh.until.message_id)
    if row is None or row.digest != fresh.until.digest:
        return None
    line = await _line(connection, lease.chat, fresh.parent)
    if line is None:
        return None
    number = await _next(connection)
    content = {
        "id": number,
        "covered_until": row.message_id,
        "covered_digest": row.digest,
        "covered_messages": row.depth,
        "covered_tokens": row.path_tokens,
        "kind": fresh.kind,
        "tokens": fresh.tokens,
        "summariser": fresh.summariser,
        "prompt_version": fresh.prompt_version,
        "verdict": fresh.verdict,
        **_texts(message.named(fresh.rendered, number)),
        **memories.columns(fresh.memory),
    }
    *ancestors, identity = (await add(connection, lease.chat, line, content)).ids
    await messages.point_to(
        connection, lease.chat, row.message_id, identity, [*ancestors, *fresh.replaces]
    )
    await _retire(connection, lease.chat, fresh)
    await chats.note_leaf(connection, lease.chat)
    if fresh.kind != INTERIM:  # which is no part of what a summariser reads of a long turn
        await connection.execute(delete(partials).where(*of(lease.chat, partials)))
    return identity


async def correct(
    connection: AsyncConnection,
    chat: ChatKey,
    original: int,
    memory: Memory,
    rendered: Rendered,
    **changed: object,
) -> int:
    """Adds a version of a checkpoint that says something else; returns its id. No message points to it yet.

    Args:
        connection: in a transaction that has the chat locked.
        chat: whose.
        original: the checkpoint, which exists.
        memory: what the new version says.
        rendered: its texts.
        changed: its other columns, as far as they differ.
    """
    query = select(checkpoints).where(*of(chat, checkpoints), checkpoints.c.id == original)
    row = (await connection.execute(query)).mappings().one()
    number = await _next(connection)
    said = memories.columns(memory) | _texts(message.named(rendered, number))
    content = (
        {column.name: row[column.name] for column in CONTENT} | said | changed | {"id": number}
    )
    return (await add(connection, chat, Line(row["ancestors"], row["savings"][:-1]), content)).ids[
        -1
    ]


async def serve(connection: AsyncConnection, chat: ChatKey, checkpoint: int, by: str) -> bool:
    """Makes a checkpoint the one that serves at its boundary and below, whatever did so before, as `by` wants it.

    All others that reach as far are retired, but those of branches that go off above the boundary.
    One whose own boundary was edited since may be of either, and is retired as well: should the
    edit be undone, a new one is made.

    Returns:
        Whether it was done. It is not when the message at its boundary is not stored as the summary
        has read it.
    """
    made = await find(connection, chat, checkpoint)
    if made is None:
        return False
    row = (await messages.find(connection, chat, [made.until])).get(made.until)
    if row is None or row.digest != made.digest:
        return False
    await messages.point_to(connection, chat, made.until, checkpoint, None)
    elsewhere = select(message_rows).where(
        *of(chat, message_rows),
        message_rows.c.message_id == checkpoints.c.covered_until,
        message_rows.c.digest == checkpoints.c.covered_digest,
        message_rows.c.message_id.not_in(messages.subtree(chat, [made.until])),
    )
    reaches = (checkpoints.c.covered_messages >= made.messages, checkpoints.c.retired_at.is_(None))
    others = (*of(chat, checkpoints), *reaches, checkpoints.c.id != checkpoint, ~elsewhere.exists())
    await connection.execute(update(checkpoints).where(*others).values(retired_at=func.now()))
    this = (*of(chat, checkpoints), checkpoints.c.id == checkpoint)
    verdict = checkpoints.c.verdict.concat({"served_by": by})
    await connection.execute(
        update(checkpoints).where(*this).values(retired_at=null(), verdict=verdict)
    )
    await connection.execute(delete(partials).where(*of(chat, partials)))
    await chats.fence(connection, chat)
    await chats.note_leaf(connection, chat)
    return True


async def add(
    connection: AsyncConnection, chat: ChatKey, line: Line, content: dict[str, Any]
) -> Line:
    """Inserts a checkpoint that grew from the last one of `line`: the next version, when others are there already.

    `content` are the columns that do not depend on the chat, and the id of one that tells it
    itself; a copy tells that of its original. No message points to it yet.
    """
    parent = line.ids[-1] if line.ids else 0
    saved = max([*line.savings[-1:], content["covered_tokens"] - content["tokens"]])
    versions = select(func.coalesce(func.max(checkpoints.c.version), 0) + 1).where(
        *of(chat, checkpoints),
        checkpoints.c.parent_id == parent,
        checkpoints.c.covered_digest == content["covered_digest"],
    )
    grown = {"parent_id": parent, "ancestors": line.ids, "savings": [*line.savings, saved]}
    query = insert(checkpoints).values(
        **chat.columns, **grown, version=versions.scalar_subquery(), **content
    )
    row = (await connection.execute(query.returning(checkpoints.c.id, checkpoints.c.savings))).one()
    return Line([*line.ids, row.id], row.savings)


async def _next(connection: AsyncConnection) -> int:
    """The id of a checkpoint that is about to be added."""
    sequence = func.pg_get_serial_sequence(checkpoints.name, checkpoints.c.id.name)
    number: int = (await connection.execute(select(func.nextval(sequence)))).scalar_one()
    return number


async def _line(connection: AsyncConnection, chat: ChatKey, last: int) -> Line | None:
    """The line that ends with the checkpoint `last`, empty for 0; None when that does not exist any more."""
    if not last:
        return Line([], [])
    query = select(checkpoints.c.ancestors, checkpoints.c.savings)
    row = (
        await connection.execute(query.where(*of(chat, checkpoints), checkpoints.c.id == last))
    ).one_or_none()
    return Line([*row.ancestors, last], row.savings) if row else None


async def _retire(connection: AsyncConnection, chat: ChatKey, fresh: Fresh) -> None:
    """Takes those out of service that `fresh` replaces, unless a branch goes off above its boundary and needs them.

    The messages that led to an interim one lead to what that was a branch of.
    """
    if not fresh.replaces:
        return
    replaced = (*of(chat, checkpoints), among(checkpoints.c.id, fresh.replaces))
    used = select(message_rows).where(
        *of(chat, message_rows), message_rows.c.checkpoint_id == checkpoints.c.id
    )
    elsewhere = used.where(
        message_rows.c.message_id.not_in(messages.above(chat, fresh.until.message_id))
    )
    query = select(checkpoints.c.id).where(
        *replaced, checkpoints.c.kind == INTERIM, ~elsewhere.exists()
    )
    interim = list((await connection.execute(query)).scalars())
    await messages.lead_back(connection, chat, interim, fresh.parent or None)
    unused = (*replaced, ~used.exists())
    await connection.execute(update(checkpoints).where(*unused).values(retired_at=func.now()))


def _texts(rendered: Rendered) -> dict[str, Any]:
    return {"summary": rendered.summary, "rules": rendered.rules, "record": rendered.record}
