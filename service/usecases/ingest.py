"""Use case: store a path. What is new of it is weighed and stored, and work is marked due.

One read says what is stored already, then texts are weighed, and one short transaction stores all
of it, if nothing has changed since the read (`storage.ingests`). So nobody waits for texts. Secrets
in what tools gave are masked in what is stored. Idempotent: the same path again changes nothing.

A message's id is the hash of all words down to it, so what was edited is another message. Where the
host has the old one's id for the new one, the old one is deleted with all that has read it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import Conflict, Problem, ProblemType
from service.planning.plan import is_poorer
from service.processes.intake import RawMessage, TokenCountedMessage
from service.recall.parts import STORED_FROM
from service.storage import chats, deletions, ingests, messages, work
from service.storage.ingests import (
    ChatUpdate,
    IncomingMessage,
    NewMessage,
    Saving,
    StoredPath,
    Transcript,
)
from service.storage.messages import MessageRow
from service.storage.sealing import Cipher
from service.storage.tables import ChatKey
from service.usecases.read_messages import read_messages
from service.usecases.weigh import ServeContext

_A_TURN = 2  # messages; only more at once may be those of another chat, of which this is a fork
_ANSWER_DEPTH = 2  # of the answer to a chat's first question


class IngestOutcome(NamedTuple):
    """The outcome of an ingest: the key of the wake-up message to send in `delay` seconds.

    There is none when no work is due.
    """

    wake_up: str | None = None
    delay: float = 0


@dataclass(frozen=True, slots=True)
class _Path:
    """A path beside what is stored of it.

    Attributes:
        stored: what is stored.
        base: the row of `after`.
        same: how many of its first messages are stored.
        owner: who began the chat; whoever sends the path, where nothing of it is stored any more.
    """

    stored: StoredPath
    base: MessageRow | None
    same: int
    owner: str


async def ingest_transcript(context: ServeContext, transcript: Transcript) -> IngestOutcome:
    """Stores the path, and marks work due when the policy asks for it.

    It is due in `work.DEBOUNCE` seconds, and at once when the next request is too large.

    Raises:
        Conflict: `after` is not stored.
        Unavailable: large texts cannot be read, because no text process starts.
        Problem: GONE: the chat or its user was deleted a short time ago.
        Problem: NOT_THEIRS: the chat is another user's, and the path goes on from nothing of it.
    """
    database = context.database
    # From here on, ids are those that are stored: see `storage.sealing`.
    transcript = _key_ids(transcript, await database.keyring.find_cipher(transcript.tenant))
    counted: dict[str, TokenCountedMessage] = {}
    while True:
        path = _compare_path(transcript, await ingests.look_up(database.reads, transcript))
        wanted = _find_unread(transcript, path)
        if not wanted.keys() <= counted.keys():
            masks = context.settings.mask_secrets
            read = await read_messages(context.texts, list(wanted.values()), masks)
            counted = dict(zip(wanted, read, strict=True))
        # Ends without a commit if it does not come to one.
        async with database.engine.connect() as connection:
            outcome = await _store(connection, transcript, path, counted)
            if outcome:
                await connection.commit()
                return outcome
        # The chat has changed since it was read.


def _key_ids(transcript: Transcript, cipher: Cipher) -> Transcript:
    """The same with its ids and hashes as they are stored."""
    messages = [
        replace(
            one,
            id=cipher.keyed_hash(one.id),
            host_hash=one.host_hash and cipher.keyed_hash(one.host_hash),
        )
        for one in transcript.messages
    ]
    after = transcript.after and cipher.keyed_hash(transcript.after)
    return replace(transcript, after=after, messages=messages)


def _compare_path(transcript: Transcript, stored: StoredPath) -> _Path:
    """The path beside what is stored of it, and its owner.

    Raises:
        Conflict: as `ingest`.
        Problem: NOT_THEIRS: the chat is another user's, and the path goes on from nothing of it.
    """
    base = stored.found.get(transcript.after) if transcript.after else None
    if transcript.after and (base is None or transcript.after in stored.without_text):
        raise Conflict("what the turn follows is not stored any more; the next request brings it")
    same = sum(1 for _ in takewhile(lambda one: one.id in stored.found, transcript.messages))
    # The chat stays whose it was as long as the path goes on from anything that is stored of it.
    if base or same:
        return _Path(stored, base, same, stored.chat.begun_by)
    if stored.chat.has_messages and transcript.user != stored.chat.begun_by:
        raise Problem(
            "this chat is stored for another user, and the path has no message of it: send it"
            " under its own chat id; an operator may delete what is stored of the chat",
            ProblemType.NOT_THEIRS,
        )
    return _Path(stored, base, same, transcript.user)


async def _store(
    connection: AsyncConnection,
    transcript: Transcript,
    path: _Path,
    counted: dict[str, TokenCountedMessage],
) -> IngestOutcome | None:
    """Stores what was read of a path; None when its chat has changed since it was looked up."""
    stored = path.stored
    rows, new = _make_rows(transcript, path, counted)
    update = _make_update(transcript, path, rows[-1])
    chat = await ingests.open_chat(connection, transcript, stored.chat)
    if chat is None:
        return None
    await _note_seen(connection, chat, transcript, path)
    sequence = await ingests.store(connection, chat, transcript, new, update)
    if stored.lender:
        await ingests.adopt_checkpoints(
            connection, chat, ChatKey(chat.tenant, stored.lender.chat), stored.lender.line
        )
        await chats.note_leaf(connection, chat)
    if len(new) > _A_TURN:
        answers = [one.row.message_id for one in new if one.row.depth == _ANSWER_DEPTH]
        await ingests.copy_authors(connection, chat, answers)
    if update.delay is None:
        return IngestOutcome()
    return IngestOutcome(f"{chat.id}:{sequence}", update.delay)


async def _note_seen(
    connection: AsyncConnection, chat: ChatKey, transcript: Transcript, path: _Path
) -> None:
    """Notes what was seen again, and deletes what is no part of the chat any more.

    A message that the host has edited is deleted. So is a message that one request alone has
    shown, where a second request now confirms another one in its place: the first will not come
    again. In other places it may: another conversation may have begun with the same words.
    """
    again = transcript.messages[: path.same]
    seen = path.stored.found[again[-1].id] if again else path.base
    is_shown = transcript.source in ("request", "branch")
    confirms = seen is not None and not seen.confirmed and is_shown
    places: set[str | None] = {None} if transcript.starts_over else set()
    if seen:
        confirmed = await ingests.tell(connection, chat, seen.message_id if confirms else "", again)
        places |= confirmed if transcript.source == "request" else set()
    deleted = await _forget_edited(connection, chat, transcript, path)
    if places:
        deleted += await messages.drop_unconfirmed(connection, chat, places)
    if deleted:
        await deletions.delete_stale_checkpoints(connection, chat)


async def _forget_edited(
    connection: AsyncConnection, chat: ChatKey, transcript: Transcript, path: _Path
) -> int:
    """Deletes what the host has other words for now, and what goes with it; how many messages."""
    if not path.stored.replaced:
        return 0
    base = path.base.message_id if path.base else ""
    above = await messages.load_path(connection, chat, base)
    on_path = [*transcript.ids, *(row.message_id for row in above)]
    gone = await ingests.find_gone(connection, chat, path.stored.replaced, on_path)
    return await messages.drop_below(connection, chat, gone)


def _make_update(transcript: Transcript, path: _Path, leaf: MessageRow) -> ChatUpdate:
    """The update of the chat's row, and whether work is due."""
    chat = path.stored.chat
    overhead = chat.overhead if transcript.overhead is None else transcript.overhead
    left_alone = chat.left_alone and path.owner == chat.begun_by
    saving, saved = _find_saving(leaf, transcript, path)
    # A first look without the path, whatever its length; the worker's plan has the last word.
    size = leaf.path_tokens + overhead - saved
    # The next request would have to be cut, so nobody waits for more messages.
    is_over_limit = size > transcript.policy.apply_at
    # A summariser has to read what an interim summary covers.
    is_needed = size >= transcript.policy.prepare_at or saving.is_interim
    is_work = is_needed and not left_alone and transcript.compactor != chats.COMPACTS_ITSELF
    delay = 0 if is_over_limit else work.DEBOUNCE
    return ChatUpdate(
        owner=path.owner,
        left_alone=left_alone,
        overhead=overhead,
        leaf=leaf,
        delay=delay if is_work else None,
    )


def _find_saving(leaf: MessageRow, transcript: Transcript, path: _Path) -> tuple[Saving, int]:
    """The saving of the checkpoint above a leaf, and how much of it counts.

    That is the one which a fork adopts. One for a smaller window serves in want of a better one,
    which is to be written.
    """
    stored = path.stored
    own = stored.savings.get(leaf.checkpoint_id or 0, Saving(0, False, transcript.window))
    saving = stored.lender.saving if stored.lender else own
    return saving, 0 if is_poorer(saving.window, transcript.window) else saving.tokens


def _find_unread(transcript: Transcript, path: _Path) -> dict[str, RawMessage]:
    """The messages to read, by id: those that are new, and those whose texts were deleted."""
    depth = path.base.depth if path.base else 0
    unread: dict[str, RawMessage] = {}
    for place, message in enumerate(transcript.messages):
        depth += 1
        if place >= path.same or message.id in path.stored.without_text:
            unread[message.id] = RawMessage(message.text, searched=depth > STORED_FROM)
    return unread


def _make_rows(
    transcript: Transcript, path: _Path, counted: dict[str, TokenCountedMessage]
) -> tuple[list[MessageRow], list[NewMessage]]:
    """The rows of the path from `after` on, root to leaf, and those that are to be written."""
    rows = [path.base] if path.base else []
    new: list[NewMessage] = []
    author = None if transcript.user == path.owner else transcript.user
    for message in transcript.messages:
        stored, read = path.stored.found.get(message.id), counted.get(message.id)
        row = stored or _make_row(transcript, message, counted[message.id], rows)
        rows.append(row)
        if read:
            new.append(NewMessage(row, read.body, author))
    return rows, new


def _make_row(
    transcript: Transcript,
    message: IncomingMessage,
    counted: TokenCountedMessage,
    above: Sequence[MessageRow],
) -> MessageRow:
    """The row of a new message below those `above`, with running totals."""
    parent = above[-1] if above else None
    depth, path_tokens, inherited = 0, 0, None
    # A new message may be given to a model if the next request is sure to show it.
    is_confirmed = transcript.source in ("turn", "branch")
    if parent:
        depth, path_tokens, inherited = parent.depth, parent.path_tokens, parent.checkpoint_id
        is_confirmed = transcript.source == "branch" or (is_confirmed and parent.confirmed)
    return MessageRow(
        message_id=message.id,
        parent_id=parent.message_id if parent else None,
        role=counted.role,
        depth=depth + 1,
        host_id=message.host_id,
        host_hash=message.host_hash,
        confirmed=is_confirmed,
        tokens=counted.tokens,
        path_tokens=path_tokens + counted.tokens,
        step_tokens=counted.step_tokens,
        step_calls=counted.step_calls,
        sent_at=counted.sent_at,
        checkpoint_id=inherited,
    )
