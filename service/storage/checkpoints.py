"""Checkpoints: append-only versions, published by compare and swap. And drafts: how far a long turn has been read."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.planning import Checkpoint, Draft, Position
from service.storage import chats, transcripts, work
from service.storage.owner import ChatKey, of
from service.storage.tables import checkpoints, drafts
from service.summarising.ledger import Entry


@dataclass(frozen=True, slots=True)
class Memory:
    """What a next summary grows from: the narrative and the ledger so far."""

    narrative: str = ""
    ledger: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Fresh:
    """A checkpoint about to be published."""

    parent: int
    until: transcripts.Row
    kind: str
    memory: Memory
    summary: str
    tokens: int
    summariser: str
    prompt_version: str


class Line(NamedTuple):
    """A checkpoint and those it grew from, shallowest first, and what each saves: the running maximum."""

    ids: list[int]
    savings: list[int]


async def find(connection: AsyncConnection, chat: ChatKey, checkpoint: int | None) -> Checkpoint | None:
    """A checkpoint as planning sees it; None when there is none of this id."""
    columns = ("id", "covered_until", "covered_digest", "covered_messages", "covered_tokens", "tokens")
    query = select(*(checkpoints.c[name] for name in columns))
    row = (await connection.execute(query.where(*of(chat, checkpoints), checkpoints.c.id == checkpoint))).one_or_none()
    return Checkpoint(*row) if row else None


async def memory(connection: AsyncConnection, chat: ChatKey, checkpoint: int) -> Memory:
    """The narrative and ledger of a stored checkpoint."""
    query = select(checkpoints.c.narrative, checkpoints.c.ledger).where(
        *of(chat, checkpoints), checkpoints.c.id == checkpoint
    )
    return _memory(*(await connection.execute(query)).one())


async def draft(connection: AsyncConnection, chat: ChatKey) -> tuple[str, Draft, Memory] | None:
    """The chat's draft: the message it stands in, its place, and what has been read so far.

    The place's message index is for the caller to fill in.
    """
    row = (await connection.execute(select(drafts).where(*of(chat, drafts)))).one_or_none()
    if row is None:
        return None
    place = Draft(row.base_id or None, row.digest, Position(0, row.step, row.piece), row.pieces)
    return row.message_id, place, _memory(row.narrative, row.ledger)


async def save_draft(
    connection: AsyncConnection, lease: work.Lease, message_id: str, place: Draft, so_far: Memory
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
        "narrative": so_far.narrative,
        "ledger": _entries(so_far.ledger),
    }
    statement = insert(drafts).values(**lease.chat.columns, **values)
    await connection.execute(statement.on_conflict_do_update(index_elements=["chat_id"], set_=values))
    return True


async def publish(connection: AsyncConnection, lease: work.Lease, fresh: Fresh) -> int | None:
    """Publishes a checkpoint, unless what it was planned on has changed.

    In one transaction: the lease must be ours, no reset in between, the covered message still has the digest that was
    planned on, and the parent still exists.

    Returns:
        The id of the checkpoint, or None when it was refused.
    """
    if not await work.holds(connection, lease):
        return None
    rows = await transcripts.find(connection, lease.chat, [fresh.until.message_id])
    row = rows.get(fresh.until.message_id)
    if row is None or row.digest != fresh.until.digest:
        return None
    line = await _line(connection, lease.chat, fresh.parent)
    if line is None:
        return None
    content = {
        "covered_until": row.message_id,
        "covered_digest": row.digest,
        "covered_messages": row.depth,
        "covered_tokens": row.path_tokens,
        "kind": fresh.kind,
        "narrative": fresh.memory.narrative,
        "ledger": _entries(fresh.memory.ledger),
        "summary": fresh.summary,
        "tokens": fresh.tokens,
        "summariser": fresh.summariser,
        "prompt_version": fresh.prompt_version,
    }
    *ancestors, identity = (await add(connection, lease.chat, line, content)).ids
    await transcripts.point_to(connection, lease.chat, row.message_id, identity, ancestors)
    await chats.note_leaf(connection, lease.chat)
    await connection.execute(delete(drafts).where(*of(lease.chat, drafts)))
    return identity


async def add(connection: AsyncConnection, chat: ChatKey, line: Line, content: dict[str, Any]) -> Line:
    """Inserts a checkpoint that grew from the last one of `line`; what was there already for this boundary, stays.

    `content` are the columns that do not depend on the chat. No message points to it yet.
    """
    parent = line.ids[-1] if line.ids else 0
    saved = max([*line.savings[-1:], content["covered_tokens"] - content["tokens"]])
    query = (
        insert(checkpoints)
        .values(**chat.columns, parent_id=parent, ancestors=line.ids, savings=[*line.savings, saved], **content)
        .on_conflict_do_nothing()
        .returning(checkpoints.c.id, checkpoints.c.savings)
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        same = select(checkpoints.c.id, checkpoints.c.savings).where(
            *of(chat, checkpoints),
            checkpoints.c.parent_id == parent,
            checkpoints.c.covered_digest == content["covered_digest"],
        )
        row = (await connection.execute(same)).one()
    return Line([*line.ids, row.id], row.savings)


async def _line(connection: AsyncConnection, chat: ChatKey, last: int) -> Line | None:
    """The line that ends with the checkpoint `last`, empty for 0; None when that does not exist any more."""
    if not last:
        return Line([], [])
    query = select(checkpoints.c.ancestors, checkpoints.c.savings)
    row = (await connection.execute(query.where(*of(chat, checkpoints), checkpoints.c.id == last))).one_or_none()
    return Line([*row.ancestors, last], row.savings) if row else None


def _entries(ledger: Sequence[Entry]) -> list[dict[str, Any]]:
    return [asdict(entry) for entry in ledger]


def _memory(narrative: str, ledger: list[dict[str, Any]]) -> Memory:
    return Memory(narrative, tuple(Entry(**entry) for entry in ledger))
