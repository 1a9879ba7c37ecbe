"""Reads checkpoints, and brings them into service and out of it.

A checkpoint is published by compare and swap: the lease must be held, the epoch unchanged, and the
boundary and the parent still stored. A version that is replaced is retired: it stays stored, and no
read finds it.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import CannotOpen, TextWorkFailed, describe_unexpected
from service.planning.plan import Checkpoint
from service.storage import chats, codec, database, messages, sealing, work
from service.storage.sealing import AssociatedData, Cipher
from service.storage.tables import ChatKey, checkpoints
from service.summarising import message
from service.summarising.memory import Memory

_OF_ITS_CHAT = (
    *("id", "tenant_id", "chat_id", "parent_id", "ancestors", "savings", "windows"),
    *("created_at", "retired_at"),
)
CONTENT = [column for column in checkpoints.c if column.name not in _OF_ITS_CHAT]
"""The columns that say the same in whatever chat, once they are opened."""
_READ = ("memory", "summary")  # for a memory: see `storage.codec`
PACKED = (*_READ, "verdict")
"""The columns that are packed, sealed or not."""

_SQL = database.load_texts("checkpoints", subtree=messages.SUBTREE)


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


async def find_checkpoint(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int
) -> CheckpointInfo | None:
    """One checkpoint; None when there is none of this id."""
    found = await list_checkpoints(connection, chat, checkpoint)
    return found[0] if found else None


async def list_checkpoints(
    connection: AsyncConnection, chat: ChatKey, which: int | None = None
) -> list[CheckpointInfo]:
    """The chat's checkpoints, oldest first; only the one with the id `which`, if that is given."""
    cipher = await sealing.find_cipher(connection, chat.tenant)
    rows = await connection.execute(_SQL["infos"], chat.parameters(which=which))
    found = []
    for row in rows.mappings():
        packed = cipher.decrypt(aad_for_part(chat, row["id"], "verdict"), row["verdict"])
        found.append(CheckpointInfo(**{**row, "verdict": codec.unpack(packed)}))
    return found


async def load_summary(connection: AsyncConnection, chat: ChatKey, checkpoint: int) -> str | None:
    """The summary message of a checkpoint; None when there is none of this id."""
    sealed = await connection.scalar(_SQL["summary"], chat.parameters(checkpoint=checkpoint))
    if sealed is None:
        return None
    cipher = await sealing.find_cipher(connection, chat.tenant)
    summary = cipher.decrypt(aad_for_part(chat, checkpoint, "summary"), sealed)
    return codec.unpack_text(summary)


async def load_path_checkpoints(
    connection: AsyncConnection, chat: ChatKey, ids: Collection[int]
) -> PathCheckpoints:
    """The checkpoints of a path, whose messages point to `ids`."""
    rows = await connection.execute(_SQL["planned"], chat.parameters(ids=list(ids)))
    found = PathCheckpoints([], [])
    for is_interim, *row in rows:
        kind = found.interim if is_interim else found.final
        kind.append(Checkpoint(*row))
    return found


async def load_memory(engine: AsyncEngine, chat: ChatKey, checkpoint: int) -> Memory | None:
    """The memory of a checkpoint; None if it is not stored any more."""
    async with engine.connect() as connection:
        line = await load_line(connection, chat, checkpoint)
    # In a thread and in no transaction: it may be long.
    return await asyncio.to_thread(codec.unpack_memory, line) if line else None


async def load_line(
    connection: AsyncConnection, chat: ChatKey, checkpoint: int
) -> Sequence[codec.StoredMemory]:
    """The packed rows of a checkpoint's memory; none if it is not stored any more."""
    parameters = chat.parameters(checkpoint=checkpoint, whole=codec.WHOLE_EVERY)
    rows = (await connection.execute(_SQL["line"], parameters)).mappings().all()
    if rows and len(rows) != rows[0]["length"]:
        raise CannotOpen(f"checkpoint {checkpoint} grew from one that is not stored any more")
    cipher = await sealing.find_cipher(connection, chat.tenant)
    line = []
    for row in rows:
        texts = (cipher.decrypt(aad_for_part(chat, row.id, name), row[name]) for name in _READ)
        line.append(codec.StoredMemory(*texts))
    return line


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


class PackedTexts(NamedTuple):
    """The texts of a checkpoint about to be added; `number` is its id, which its summary names."""

    number: int
    summary: bytes
    memory: bytes


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A checkpoint about to be published. `verdict` is what the gate found, as JSON.

    `window` is that of the model that it was written for, in tokens.

    `superseded` are deeper ones that it is to serve in place of. It does so anyway of the interim
    ones above its boundary.
    """

    parent: int
    until: messages.MessageRow
    kind: str
    texts: PackedTexts
    tokens: int
    window: int
    summariser: str
    prompt_version: str
    verdict: dict[str, Any] = field(default_factory=dict)
    superseded: Collection[int] = ()


class Lineage(NamedTuple):
    """A checkpoint and those before it in its line, shallowest first.

    `savings` is what each of them saves a request, in tokens; `windows` are those that they were
    written for.
    """

    ids: list[int]
    savings: list[int]
    windows: list[int]


async def pack_texts(
    engine: AsyncEngine, chat: ChatKey, parent: int, memory: Memory, text: str
) -> PackedTexts:
    """Packs the texts of a checkpoint that grew from `parent`, and takes an id for it.

    In a thread and in no transaction, because they may be long; `text` is without the id.

    Raises:
        TextWorkFailed: the texts cannot be packed.
    """
    async with engine.connect() as connection:
        number = await take_next_id(connection)
        line = await load_line(connection, chat, parent)
    return await asyncio.to_thread(_pack_parts, number, line, memory, text)


def _pack_parts(
    number: int, line: Sequence[codec.StoredMemory], memory: Memory, text: str
) -> PackedTexts:
    summary = message.add_checkpoint_id(text, number)
    try:
        packed_memory = codec.pack_memory(memory, summary, line)
    except Exception as error:  # its words may quote the chat
        raise TextWorkFailed(describe_unexpected(error)) from error
    return PackedTexts(number, codec.pack_text(summary), packed_memory)


async def publish_checkpoint(
    connection: AsyncConnection, lease: work.Lease, new: NewCheckpoint
) -> int | None:
    """Publishes a checkpoint, unless what it was planned on has changed.

    In one transaction: the lease must be ours, no reset in between, and the covered message and the
    parent still exist.

    Returns:
        The id of the checkpoint, or None when it was refused.
    """
    chat = lease.chat
    # Locks the chat, so that what is checked below still holds at the end of the transaction.
    if not await work.holds_lease(connection, lease):
        return None
    until = new.until.message_id
    if not await messages.find_messages(connection, chat, [until]):
        return None
    line = await find_lineage(connection, chat, new.parent)
    if line is None:
        return None
    number = new.texts.number
    content = {
        "window": new.window,
        "covered_until": until,
        "covered_messages": new.until.depth,
        "covered_tokens": new.until.path_tokens,
        "kind": new.kind,
        "tokens": new.tokens,
        "summariser": new.summariser,
        "prompt_version": new.prompt_version,
        "verdict": codec.pack(new.verdict),
        "summary": new.texts.summary,
        "memory": new.texts.memory,
    }
    await add_checkpoint(connection, chat, line, number, content)
    await messages.assign_checkpoint(connection, chat, until, number, new.superseded)
    parameters = chat.parameters(newest=number, until=until, superseded=list(new.superseded))
    await connection.execute(_SQL["retire"], parameters)
    await chats.note_leaf(connection, chat)
    return number


async def correct_checkpoint(
    connection: AsyncConnection,
    chat: ChatKey,
    original: int,
    texts: PackedTexts,
    tokens: int,
    by: str,
) -> None:
    """Adds another version of a checkpoint that serves, and puts it in its place.

    It serves at its boundary and below, on every branch, and goes on when a deeper one is there,
    which a model may have worded otherwise. All others that reach as far are retired, but those of
    branches that go off above.
    """
    result = await connection.execute(_SQL["whole"], chat.parameters(checkpoint=original))
    row = result.mappings().one()
    cipher = await sealing.find_cipher(connection, chat.tenant)
    content = open_content(row, cipher, chat) | {
        "kind": "corrected",
        "summary": texts.summary,
        "memory": texts.memory,
        "tokens": tokens,
        "summariser": "operator",
        "prompt_version": "",
        "verdict": codec.pack({"outcome": "corrected", "by": by}),
    }
    # The last of the savings is the original's own.
    grew_from = Lineage(row["ancestors"], row["savings"][:-1], row["windows"][:-1])
    content["window"] = row["windows"][-1]
    await add_checkpoint(connection, chat, grew_from, texts.number, content)
    until = row["covered_until"]
    await messages.assign_checkpoint(connection, chat, until, texts.number, preferred=True)
    others = chat.parameters(newest=texts.number, roots=[until], depth=row["covered_messages"])
    await connection.execute(_SQL["retire_others"], others)
    await chats.let_serve(connection, chat, texts.number)
    await _end_work(connection, chat)


async def drop_all_but(connection: AsyncConnection, chat: ChatKey, keep: Collection[int]) -> int:
    """Deletes the chat's checkpoints but `keep`, of which none grew from another one.

    Returns:
        How many were deleted.
    """
    parameters = chat.parameters(keep=list(keep))
    # Before they are deleted: their rows say to which ancestor the messages fall back.
    await connection.execute(_SQL["lead_to_kept"], parameters)
    count = (await connection.execute(_SQL["drop_all_but"], parameters)).rowcount
    await _end_work(connection, chat)
    return count


async def _end_work(connection: AsyncConnection, chat: ChatKey) -> None:
    """Work that is under way goes on from what may serve no more: it is refused."""
    await chats.refuse_running_work(connection, chat)
    await chats.note_leaf(connection, chat)


async def add_checkpoint(
    connection: AsyncConnection, chat: ChatKey, line: Lineage, number: int, content: dict[str, Any]
) -> Lineage:
    """Inserts checkpoint `number`, which grew from the last one of `line`.

    `content` are the columns that do not depend on the chat, not sealed yet, and the `window` that
    it was written for. No message points to it yet.

    Returns:
        The line that ends with it.
    """
    columns = dict(content)
    window = columns.pop("window")
    cipher = await sealing.find_cipher(connection, chat.tenant)
    for name in PACKED:
        columns[name] = cipher.encrypt(aad_for_part(chat, number, name), content[name])
    windows = [*line.windows, window]
    savings = [*line.savings, content["covered_tokens"] - content["tokens"]]
    grown = {
        "id": number,
        "parent_id": line.ids[-1] if line.ids else 0,
        "ancestors": line.ids,
        "savings": savings,
        "windows": windows,
    }
    values = chat.columns | grown | columns
    await connection.execute(insert(checkpoints).values(values))
    return Lineage([*line.ids, number], savings, windows)


async def take_next_id(connection: AsyncConnection) -> int:
    """The id of a checkpoint that is about to be added."""
    number: int = (await connection.scalars(_SQL["next_id"])).one()
    return number


async def find_lineage(connection: AsyncConnection, chat: ChatKey, last: int) -> Lineage | None:
    """The line that ends with the checkpoint `last`, empty for 0; None when that was deleted."""
    if not last:
        return Lineage([], [], [])
    row = (await connection.execute(_SQL["lineage"], chat.parameters(last=last))).one_or_none()
    return Lineage([*row.ancestors, last], row.savings, row.windows) if row else None
