"""Checkpoints as they are stored: looked at, and read.

`publishing` says how they come into service and go out of it.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import CannotOpen
from service.planning.plan import Checkpoint
from service.storage import codec, memories, sealing
from service.storage.sealing import AssociatedData, Cipher
from service.storage.tables import INTERIM, checkpoints
from service.storage.tables import messages as message_rows
from service.storage.tenancy import ChatKey, match_chat
from service.storage.terms import in_values
from service.summarising.memory import Memory

_OF_ITS_CHAT = (
    *("id", "tenant_id", "chat_id", "parent_id", "ancestors", "savings", "windows"),
    *("created_at", "retired_at"),
)
CONTENT = [column for column in checkpoints.c if column.name not in _OF_ITS_CHAT]
"""The columns that say the same in whatever chat, once they are opened."""
_READ = ("memory", "summary")  # for a memory: see `storage.memories`
PACKED = (*_READ, "verdict")
"""The columns that are packed, sealed or not."""

# In the order of `planning.Checkpoint`.
_PLANNED = (
    checkpoints.c.id,
    checkpoints.c.covered_until,
    checkpoints.c.covered_messages,
    checkpoints.c.covered_tokens,
    checkpoints.c.tokens,
    checkpoints.c.parent_id,
    checkpoints.c.windows[func.cardinality(checkpoints.c.windows)],
)

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


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """One checkpoint without its texts.

    Those of one parent and boundary are versions of each other; `serving` says that some message
    leads to this one, or to one that grew from it. `boundary` is the last message that it covers,
    and `covered_until` what the host calls that. `verdict` is what the publish gate found, or which
    operator corrected it.
    """

    id: int
    parent_id: int | None
    serving: bool
    boundary: str
    covered_until: str
    covered_messages: int
    covered_tokens: int
    tokens: int
    kind: str
    summariser: str
    prompt_version: str
    verdict: dict[str, Any]
    created_at: datetime


class PathCheckpoints(NamedTuple):
    """The checkpoints of a path: the final ones, which others grow from, and the interim ones.

    An interim one was made by code, and serves until a summariser has read what it covers.
    """

    final: list[Checkpoint]
    interim: list[Checkpoint]


async def list_checkpoints(connection: AsyncConnection, chat: ChatKey) -> list[CheckpointInfo]:
    """The chat's checkpoints, oldest first."""
    return await _list_infos(connection, chat)


async def find_checkpoint(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int
) -> CheckpointInfo | None:
    """One checkpoint; None when there is none of this id."""
    found = await _list_infos(connection, chat, checkpoints.c.id == checkpoint)
    return found[0] if found else None


async def _list_infos(
    connection: AsyncConnection, chat: ChatKey, *which: ColumnElement[bool]
) -> list[CheckpointInfo]:
    cipher = await sealing.cipher_for(connection, chat.tenant)
    others: dict[str, ColumnElement[Any]] = {
        "parent_id": func.nullif(checkpoints.c.parent_id, 0),
        "boundary": checkpoints.c.covered_until,
        "covered_until": _select_boundary(chat),
        "serving": _is_serving(chat),
    }
    columns = [
        others[name].label(name) if name in others else checkpoints.c[name]
        for name in CheckpointInfo.__dataclass_fields__
    ]
    query = (
        select(*columns).where(*match_chat(chat, checkpoints), *which).order_by(checkpoints.c.id)
    )
    found = []
    for row in (await connection.execute(query)).mappings():
        packed = cipher.decrypt(aad_for_part(chat, row["id"], "verdict"), row["verdict"])
        found.append(CheckpointInfo(**{**row, "verdict": codec.unpack(packed)}))
    return found


def _select_boundary(chat: ChatKey) -> ColumnElement[str]:
    """What the host calls the last message that a checkpoint covers, if it has told that."""
    told = select(message_rows.c.host_id).where(
        *match_chat(chat, message_rows), message_rows.c.message_id == checkpoints.c.covered_until
    )
    return func.coalesce(told.scalar_subquery(), checkpoints.c.covered_until)


def _is_serving(chat: ChatKey) -> ColumnElement[bool]:
    pointed_to = select(message_rows.c.checkpoint_id).where(*match_chat(chat, message_rows))
    head = checkpoints.alias("head")
    lines = select(func.unnest(func.array_append(head.c.ancestors, head.c.id))).where(
        *match_chat(chat, head), head.c.id.in_(pointed_to)
    )
    return checkpoints.c.id.in_(lines)


async def load_summary(connection: AsyncConnection, chat: ChatKey, checkpoint: int) -> str | None:
    """The summary message of a checkpoint; None when there is none of this id."""
    this = (*match_chat(chat, checkpoints), checkpoints.c.id == checkpoint)
    sealed = (await connection.execute(select(checkpoints.c.summary).where(*this))).scalar()
    if sealed is None:
        return None
    cipher = await sealing.cipher_for(connection, chat.tenant)
    return codec.unpack_text(cipher.decrypt(aad_for_part(chat, checkpoint, "summary"), sealed))


async def load_path_checkpoints(
    connection: AsyncConnection, chat: ChatKey, ids: Collection[int]
) -> PathCheckpoints:
    """Those of a path, of which `ids` are what its messages point to."""
    interim = checkpoints.c.kind == INTERIM
    query = select(interim, *_PLANNED).where(
        *match_chat(chat, checkpoints), in_values(checkpoints.c.id, ids)
    )
    found = PathCheckpoints([], [])
    for is_interim, *row in (await connection.execute(query)).all():
        kind = found.interim if is_interim else found.final
        kind.append(Checkpoint(*row))
    return found


async def load_memory(engine: AsyncEngine, chat: ChatKey, checkpoint: int) -> Memory | None:
    """What a stored checkpoint says; None when it is not stored any more."""
    async with engine.connect() as connection:
        line = await load_line(connection, chat, checkpoint)
    # In a thread and in no transaction: it may be long.
    return await asyncio.to_thread(memories.unpack_memory, line) if line else None


async def load_line(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int
) -> Sequence[memories.StoredMemory]:
    """What a checkpoint's memory is read from, packed; nothing when it is not stored any more."""
    parameters = {"tenant": chat.tenant, "chat": chat.id, "checkpoint": checkpoint}
    query = await connection.execute(_LINE, parameters | {"whole": memories.WHOLE_EVERY})
    rows = query.mappings().all()
    if rows and len(rows) != rows[0]["length"]:
        raise CannotOpen(f"checkpoint {checkpoint} grew from one that is not stored any more")
    cipher = await sealing.cipher_for(connection, chat.tenant)
    return [
        memories.StoredMemory(
            *(cipher.decrypt(aad_for_part(chat, row.id, name), row[name]) for name in _READ)
        )
        for row in rows
    ]


def seal_content(
    plain: Mapping[str, Any], cipher: Cipher, chat: ChatKey, number: int
) -> dict[str, Any]:
    """The content of a checkpoint as it is stored: its texts sealed, or as they are."""
    texts = {name: cipher.encrypt(aad_for_part(chat, number, name), plain[name]) for name in PACKED}
    return {**plain, **texts}


def open_content(row: Mapping[Any, Any], cipher: Cipher, chat: ChatKey) -> dict[str, Any]:
    """The content of a stored checkpoint, not sealed any more."""
    number = row["id"]
    content = {column.name: row[column.name] for column in CONTENT}
    for name in PACKED:
        content[name] = cipher.decrypt(aad_for_part(chat, number, name), row[name])
    return content


def aad_for_part(chat: ChatKey, number: int, column: str) -> AssociatedData:
    """The place of a part of a checkpoint."""
    return AssociatedData(checkpoints.name, column, chat, number)
