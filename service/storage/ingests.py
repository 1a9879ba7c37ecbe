"""Reads a chat for an ingest and stores a path in it: one read, and one short transaction.

The read is outside of any transaction, so that texts are counted after it while nobody waits. The
transaction then locks the chat's row, unless it has changed since, and begins again with the read
if it has. So every change of what an ingest reads has to change the chat's row, too, before it
commits. A fork gets copies of its source's checkpoints (`adopt_checkpoints`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Row, delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from service import request_ids
from service.errors import Problem, ProblemType
from service.planning import policy
from service.storage import database, deletions, messages, sealing
from service.storage.chats import LABELS, seal_label
from service.storage.checkpoints import (
    CONTENT,
    Lineage,
    aad_for_part,
    add_checkpoint,
    open_content,
    take_next_id,
)
from service.storage.database import NumberedStatement, Reads
from service.storage.messages import MessageRow, aad_for_body
from service.storage.sealing import Cipher
from service.storage.tables import INTERIM, ChatKey, chats, checkpoints, in_values, match_chat

_SQL = database.load_statements("ingests")
_KNOWN = database.number_parameters(_SQL["known"])
_OPEN = database.number_parameters(_SQL["open"])
_STORE = database.number_parameters(_SQL["store"])
_TELL = text(_SQL["tell"])
_GONE = text(_SQL["gone"])
_COPY_AUTHORS = text(_SQL["copy_authors"])
_PLACES = tuple(MessageRow.__dataclass_fields__)


Source = Literal["request", "turn", "branch", "unseen"]


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """One node of a path (`request.native`) as it is to be stored.

    Attributes:
        id: the hash of all words down to it.
        text: what is stored of it, as JSON (`intake.UploadedMessage`).
        host_id: what the host calls it; None where it has not told that.
        host_hash: the hash of what the host stores; None likewise.
    """

    id: str
    text: bytes
    host_id: str | None = None
    host_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A path that grew: the messages that follow `after`, root to leaf.

    Attributes:
        after: the id of the node that they follow; None for the root. All down to it was seen now.
        source: who has shown them. What one `request` has shown is confirmed by a second one. What
            the host has told as its whole `branch` is confirmed by the request that has shown it
            too; else it is `unseen`. A `turn` is as sure as what it follows.
        overhead: tokens that go to the model beside the stored messages; None where that is not
            known, and stays.
        usage_factor: what the provider counts for one of our tokens; None where nobody knows.
        window_assumed: whether nobody told the model's window.
        expires_in: seconds after which the chat is deleted, unless it is ingested again.
        compactor: who else compresses it: `open-webui` or None.
        title, user_name: the chat's and the user's, for operators; None leaves what is stored.
        served: the checkpoint in the request; 0 where there was none.
        starts_over: nothing of the path is stored: what no second request has shown is deleted.
    """

    tenant: int
    chat: str
    user: str
    model: str
    policy: policy.Policy
    window: int
    after: str | None
    messages: Sequence[IncomingMessage]
    source: Source
    overhead: int | None
    usage_factor: float | None = None
    window_assumed: bool = False
    expires_in: int | None = None
    compactor: str | None = None
    title: str | None = None
    user_name: str | None = None
    served: int = 0
    starts_over: bool = False

    @property
    def ids(self) -> list[str]:
        """The ids of the messages, and of the one that they follow."""
        ids = [message.id for message in self.messages]
        return [*ids, self.after] if self.after else ids


class Saving(NamedTuple):
    """A checkpoint's saving: tokens of a request, whether for a time only, for which window."""

    tokens: int
    is_interim: bool
    window: int


class Lender(NamedTuple):
    """A chat that has a checkpoint on a path, the line that ends with it, and what it saves."""

    chat: int
    line: list[int]
    saving: Saving


_DECODE_ROWS = msgspec.json.Decoder(list[MessageRow]).decode
_DECODE_LENDER = msgspec.json.Decoder(Lender | None).decode
_DECODE_SAVINGS = msgspec.json.Decoder(dict[int, Saving]).decode


@dataclass(frozen=True, slots=True)
class KnownChat:
    """A chat as it was at the `version` of its row; `id` is None when it is not stored.

    `begun_by` began it, and `left_alone` says that its user wants no summaries of it. `overhead`
    are the tokens that went beside its last request.
    """

    id: int | None
    version: str | None
    begun_by: str
    left_alone: bool
    overhead: int
    has_messages: bool


@dataclass(frozen=True, slots=True)
class StoredPath:
    """The stored part of a path, before the path is ingested.

    Attributes:
        found: the rows of the messages, by id, wherever in the chat they are.
        without_text: those whose texts were deleted.
        replaced: nodes off the path that the host has under the same ids: what they say was edited.
        savings: of the checkpoints that the messages lead to, by id.
        lender: another chat with the deepest checkpoint that ends at a new message; None for none.
    """

    chat: KnownChat
    found: dict[str, MessageRow]
    without_text: set[str]
    replaced: set[str]
    savings: dict[int, Saving]
    lender: Lender | None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be written: its row, and its body, packed.

    Attributes:
        author: who sent it; None for the chat's owner.
    """

    row: MessageRow
    body: bytes
    author: str | None


@dataclass(frozen=True, slots=True)
class ChatUpdate:
    """The changes of a chat's row that an ingest makes, beside what came with the path.

    Attributes:
        owner: who began the chat; the user, where nothing of it was stored any more.
        overhead: as of the path, or as it was.
        leaf: the newest message, with the deepest checkpoint on the path to it.
        delay: seconds until work is due; None when this makes none due.
    """

    owner: str
    left_alone: bool
    overhead: int
    leaf: MessageRow
    delay: float | None


async def look_up(reads: Reads, transcript: Transcript) -> StoredPath:
    """Reads what is stored of a path; nothing is locked."""
    values = {
        **_make_fields(transcript),
        "ids": transcript.ids,
        "host_ids": [message.host_id for message in transcript.messages],
    }
    row = await reads.fetchrow(_KNOWN.sql, *_KNOWN.given(values))
    assert row is not None
    return StoredPath(
        chat=KnownChat(**{name: row[name] for name in KnownChat.__dataclass_fields__}),
        found={one.message_id: one for one in _DECODE_ROWS(row["found"])},
        without_text=set(row["without_text"]),
        replaced=set(row["replaced"]),
        savings=_DECODE_SAVINGS(row["savings"]),
        lender=_DECODE_LENDER(row["lender"]),
    )


async def open_chat(
    connection: AsyncConnection, transcript: Transcript, stored: KnownChat
) -> ChatKey | None:
    """Locks a chat as it is `stored` until the transaction ends, or makes a new one.

    None when it is not as it is known any more.

    Raises:
        Problem: GONE: the chat or its user was deleted a short time ago.
    """
    tenant, chat, user = transcript.tenant, transcript.chat, transcript.user
    await deletions.lock_for_ingest(connection, tenant, chat, user)
    if stored.id is None:
        # One that has expired, whether a sweep has come by or not.
        this_chat = chats.c.tenant_id == tenant, chats.c.external_id == chat
        expired = chats.c.expires_at <= func.now()
        await connection.execute(delete(chats).where(*this_chat, expired))
    cipher = await sealing.find_cipher(connection, tenant)
    names = deletions.name_chat_lock(chat), deletions.name_user_lock(user)
    values = {
        **_make_fields(transcript),
        "hashes": [deletions.hash_name(cipher.salt, name) for name in names],
        "id": stored.id,
        "version": stored.version,
    }
    row = await _fetch(connection, _OPEN, values)
    if row["deleted"]:
        raise Problem(
            "this chat or its user was deleted; nothing of it is stored before a day is over, so"
            " stop sending it",
            ProblemType.GONE,
        )
    return None if row["id"] is None else ChatKey(tenant, row["id"])


async def store(
    connection: AsyncConnection,
    chat: ChatKey,
    transcript: Transcript,
    new: Collection[NewMessage],
    update: ChatUpdate,
) -> int:
    """Writes messages, and notes all that changes of an opened chat.

    The model's work that was put off stays so, so that a failing chat is not tried again at every
    turn; code's work is due in any case. Dead work gets one more try: what was ingested may be what
    it needed. The work belongs to the newest request, whose
    messages it surely reads: hence its `request_id`.

    Returns:
        The number of the newest work.
    """
    cipher = await sealing.find_cipher(connection, chat.tenant)
    values = {
        **_make_columns(chat, new, cipher),
        **_make_fields(transcript),
        **_make_fields(update),
        **{name: seal_label(cipher, chat, name, getattr(transcript, name)) for name in LABELS},
        **chat.parameters(),
        "leaf": update.leaf.message_id,
        "leaf_tokens": update.leaf.path_tokens,
        "made": update.leaf.checkpoint_id,
        "path": transcript.ids,
        "request_id": request_ids.get_current(),
        "due": update.delay is not None,
        "delay": float(update.delay or 0),
    }
    sequence: int = (await _fetch(connection, _STORE, values))["handed_seq"]
    return sequence


async def copy_authors(
    connection: AsyncConnection, chat: ChatKey, answers: Collection[str]
) -> None:
    """Makes who wrote in the chats that this one was forked from authors of this one.

    `answers` are the ids of its messages that answer a first question.
    """
    parameters = chat.parameters(answers=list(answers))
    await connection.execute(_COPY_AUTHORS, parameters)


async def tell(
    connection: AsyncConnection, chat: ChatKey, leaf: str, again: Collection[IncomingMessage]
) -> set[str | None]:
    """Notes that all down to `leaf` was seen again, and what the host calls the messages.

    Returns:
        The ids of the nodes that this confirms, and of the node above them; None stands for the
        chat's beginning.
    """
    if not leaf and not any(message.host_id for message in again):
        return set()
    parameters = chat.parameters(
        leaf=leaf,
        ids=[message.id for message in again],
        host_ids=[message.host_id for message in again],
        host_hashes=[message.host_hash for message in again],
    )
    confirmed: set[str | None] = set()
    for row in await connection.execute(_TELL, parameters):
        if row.is_up:
            confirmed |= {row.message_id, row.parent_id}
    return confirmed


async def find_gone(
    connection: AsyncConnection, chat: ChatKey, replaced: Collection[str], on_path: Collection[str]
) -> list[str]:
    """Finds what is deleted with these messages of a chat; the messages `on_path` stay."""
    parameters = chat.parameters(replaced=list(replaced), path=list(on_path))
    return list(await connection.scalars(_GONE, parameters))


def _make_fields(value: Transcript | ChatUpdate) -> dict[str, Any]:
    """The fields by name, as a statement takes them."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


async def _fetch(
    connection: AsyncConnection, statement: NumberedStatement, values: Mapping[str, Any]
) -> Any:  # noqa: ANN401 - a row of asyncpg's
    """The one row of a statement, in the transaction of a connection that has begun one.

    By the driver, because SQLAlchemy takes a tenth of a millisecond for each.
    """
    driver: Any = (await connection.get_raw_connection()).driver_connection
    return await driver.fetchrow(statement.sql, *statement.given(values))


def _make_columns(
    chat: ChatKey, new: Collection[NewMessage], cipher: Cipher
) -> Mapping[str, list[Any]]:
    """The columns of new messages, as the statement takes them."""
    columns: dict[str, list[Any]] = {
        name: [getattr(one.row, name) for one in new] for name in _PLACES
    }
    for name in ("step_tokens", "step_calls"):
        # An array of arrays would need them to be of one length.
        columns[name] = [f"{{{','.join(map(str, numbers))}}}" for numbers in columns[name]]
    columns["author_id"] = [one.author for one in new]
    columns["body"] = []
    for one in new:
        aad = aad_for_body(chat, one.row.message_id)
        columns["body"].append(cipher.encrypt(aad, one.body))
    return columns


async def adopt_checkpoints(
    connection: AsyncConnection, chat: ChatKey, lender: ChatKey, ids: Sequence[int]
) -> None:
    """Copies a line of another chat, and makes the messages of this one point to it.

    Nothing when a part of it was deleted meanwhile, or was put out of service here, or when another
    summary of one of its boundaries serves here. The copies stay when the other chat is deleted.
    `connection` is in a transaction that has this chat locked and ends with a note of its leaf.
    """
    query = select(checkpoints.c.id, checkpoints.c.windows, *CONTENT).where(
        match_chat(lender, checkpoints), in_values(checkpoints.c.id, ids)
    )
    cipher = await sealing.find_cipher(connection, chat.tenant)
    # Ids rise from parent to child, so this is the order in which they grew.
    rows = (await connection.execute(query.order_by(checkpoints.c.id))).mappings()
    originals = [open_content(row, cipher, lender) | {"window": row["windows"][-1]} for row in rows]
    # Only this chat is locked: the lender's may have been deleted since they were found.
    if len(originals) < len(ids):
        return
    # Before anything is added: a part of a line would serve nobody.
    copies = await _copy_checkpoints(connection, chat, originals)
    if copies is None:
        return
    line = Lineage([], [], [])
    for original in originals:
        copy = copies.get(original["covered_until"])
        if copy is None:
            number = await take_next_id(connection)
            line = await add_checkpoint(connection, chat, line, number, original)
        else:
            line = Lineage([*line.ids, copy.id], copy.savings, copy.windows)
    # The deepest first: each message is then pointed to its own at once.
    for place in range(len(ids) - 1, -1, -1):
        until = originals[place]["covered_until"]
        await messages.assign_checkpoint(connection, chat, until, line.ids[place])


async def _copy_checkpoints(
    connection: AsyncConnection, chat: ChatKey, originals: Sequence[Mapping[str, Any]]
) -> Mapping[str, Row[Any, Any, Any, Any, Any, Any, Any]] | None:
    """The copies that were made before, as a fork is ingested bit by bit, by their boundaries.

    None when the line fits no more: a copy was put out of service, or another summary of the same
    boundary serves. An interim one does for the time being only.
    """
    by_boundary = {original["covered_until"]: original for original in originals}
    cipher = await sealing.find_cipher(connection, chat.tenant)
    names = ("id", "covered_until", "kind", "savings", "windows", "retired_at", "summary")
    query = select(*(checkpoints.c[name] for name in names)).where(
        match_chat(chat, checkpoints), in_values(checkpoints.c.covered_until, by_boundary)
    )
    copies = {}
    for row in await connection.execute(query):
        original = by_boundary[row.covered_until]
        # Sealed texts differ even where they say the same, so they are compared here, not in SQL.
        # No two say the same by chance: each names the checkpoint that it was written for.
        summary = cipher.decrypt(aad_for_part(chat, row.id, "summary"), row.summary)
        is_copy = summary == original["summary"]
        serves = row.retired_at is None
        if is_copy and serves:
            copies[row.covered_until] = row
        elif is_copy or (serves and row.kind != INTERIM):
            return None
    return copies
