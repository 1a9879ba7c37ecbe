"""Use case: ingest a path. It is checked, weighed and stored, and work is marked due.

Texts are read before the one transaction that stores all of it, so that nobody waits for them: what
is stored already is looked up before, and again in the transaction. Secrets in what tools gave are
masked in what is stored; fingerprints, hashes and sizes are those of what was sent. Idempotent: the
same path again changes nothing. The path of one chat grows from what is stored (`after`), so what
is uploaded and counted is what is new. A chat whose work waits for texts that are not kept any more
takes only a whole path; a text that comes again is stored again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics, request_ids
from service.errors import (
    Conflict,
    Problem,
    ProblemType,
    TextProcessAway,
    TextTooHard,
    Unavailable,
    Unprocessable,
)
from service.planning import policy
from service.planning.plan import Checkpoint
from service.processes import Texts, intake
from service.processes.intake import RawMessage, Taken, Weighed
from service.recall.parts import STORED_FROM
from service.storage import authors, chats, checkpoints, forks, messages, sealing, tombstones, work
from service.storage.chats import OpenedChat
from service.storage.messages import MessageRow
from service.storage.sealing import Seal
from service.storage.tenancy import ChatKey
from service.storage.tombstones import Named
from service.transcript import ROOT, digest

_SMALL = 2**14  # bytes; reading so few takes milliseconds, whatever they are
_SLICE = 2**16  # bytes that are read in one go
_A_TURN = 2  # messages; only more at once may be those of another chat, of which this is a fork
_MOST_HARD = 2  # deadlines that one ingest may cost

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Handed:
    """One message as it was sent; `text` is all of it as JSON (`intake.HandedMessage`)."""

    id: str
    fingerprint: str
    digest: str
    text: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Transcript:
    """A path that grew: the messages that follow `after` (id, digest), root to leaf.

    Attributes:
        after: None means from the root on.
        served: the checkpoint that was in the request which the newest answer replied to, 0 when
            none was, and None when that is not known; the provider's `usage` is compared with it.
        window_assumed: whether nobody told the model's window.
        beside: what was sent beside the messages, in tokens, as the filter estimates it; None
            where it does not say so.
        expires_in: seconds after which the chat is deleted, unless it is ingested again.
        compactor: who else compresses it: `open-webui` or None.
        anyone: a fork adopts what any chat of the tenant lends, not only those of `user`.
        mask_secrets: whether secrets are masked in what is stored.
    """

    tenant: int
    chat: str
    user: str
    model: str
    policy: policy.Policy
    after: tuple[str, str] | None
    messages: Sequence[Handed]
    served: int | None
    window_assumed: bool = False
    beside: int | None = None
    expires_in: int | None = None
    compactor: str | None = None
    anyone: bool = False
    mask_secrets: bool = True


@dataclass(frozen=True, slots=True)
class Accepted:
    """What came of it.

    `wake_up` is the key of the wake-up message to send, in `delay` seconds, when a worker has to be
    woken.
    """

    due: bool
    wake_up: str | None = None
    delay: float = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """What is stored of a path before it is ingested.

    Attributes:
        base: the row of `after`.
        found: the rows of its messages, by id, wherever in the chat they are.
        same: how many of its first messages are stored where they were sent.
        gone: those of the first messages whose texts are not kept any more.
    """

    base: MessageRow | None
    found: dict[str, MessageRow]
    same: int
    gone: set[str]


async def ingest(engine: AsyncEngine, texts: Texts, handed: Transcript) -> Accepted:
    """Stores the path and marks work due when the policy asks for it.

    It is due in `work.DEBOUNCE` seconds, and at once when the next request is too large.

    Raises:
        Conflict: `after` is not stored, or texts above it are wanted again: send the whole path.
        Unprocessable: the path contradicts itself, or what is stored; nothing was stored.
        Unavailable: large texts cannot be read, because no text process starts.
        Problem: GONE: the chat or its user was deleted a short time ago.
        Problem: NOT_THEIRS: the chat is another user's, and the path goes on from nothing of it.
    """
    check_chain(handed)
    # From here on, digests are those that are stored: see `storage.sealing`.
    async with engine.connect() as connection:
        seal = await sealing.of(connection, handed.tenant)
        handed = _keyed(handed, seal)
        known = await _look_up(connection, handed)
    while True:
        taken = [
            replace(one, content_hash=seal.keyed(one.content_hash))
            for one in await _take(texts, _wanted(handed, known), handed.mask_secrets)
        ]
        # Ends without a commit if it does not come to one.
        async with engine.connect() as connection:
            accepted = await _stored(connection, handed, taken)
            if accepted:
                await connection.commit()
                return accepted
        # What was stored is gone meanwhile. With all that was sent, nothing stored is needed.
        known = replace(known, same=0)


def _keyed(handed: Transcript, seal: Seal) -> Transcript:
    """The same with its digests and fingerprints as they are stored."""
    messages = [
        replace(one, fingerprint=seal.keyed(one.fingerprint), digest=seal.keyed(one.digest))
        for one in handed.messages
    ]
    after = handed.after and (handed.after[0], seal.keyed(handed.after[1]))
    return replace(handed, after=after, messages=messages)


async def _look_up(connection: AsyncConnection, handed: Transcript) -> _Known:
    """What is stored now of the path; nothing of it is locked."""
    chat = await chats.find(connection, handed.tenant, handed.chat)
    if chat is not None:
        return await _known(connection, chat, handed)
    if handed.after:
        raise _unknown_after()
    return _Known(None, {}, 0, set())


async def _stored(
    connection: AsyncConnection, handed: Transcript, taken: Sequence[Taken]
) -> Accepted | None:
    """Stores what was read of a path; None when more has to be read of it than that."""
    opened = await _open(connection, handed)
    chat = opened.key
    known = await _known(connection, chat, handed)
    await _check_user(connection, opened, handed, known)
    if not _is_enough(taken, _wanted(handed, known)):
        return None
    _check_contents(handed, known.found, taken)
    await _give_back(connection, chat, handed, taken, known.gone)
    rows, masks = await _store(connection, opened, handed, known, taken)
    metrics.MASKED.inc(masks)
    # After the rows, which point to the copies then; before the usage, which may name one.
    adopted = await _adopt(connection, chat, handed, known.found)
    above = rows[-2] if len(rows) > 1 else known.base
    measured = await _overhead(connection, chat, handed, taken[-1], above, adopted)
    leaf = rows[-1]
    overhead = await chats.ingested(
        connection, chat, leaf.message_id, measured, handed.beside, masks
    )
    made = await _deepest(connection, chat, leaf, adopted)
    size = _size(leaf, [*made.settled, *made.interim], overhead)
    if not _is_work(handed, size, made, opened):
        return Accepted(due=False)
    # The next request would have to be cut, so nobody waits for more messages.
    pressing = size > handed.policy.apply_at
    delay = 0 if pressing else work.DEBOUNCE
    wake_up = await work.mark_due(
        connection, chat, delay, pressing=pressing, request_id=request_ids.current()
    )
    return Accepted(due=True, wake_up=wake_up, delay=delay)


def _is_enough(taken: Sequence[Taken], wanted: Sequence[RawMessage]) -> bool:
    """Whether all was read that is to be stored."""
    return all(
        read.weighed is not None or not one.whole for read, one in zip(taken, wanted, strict=True)
    )


def _is_work(handed: Transcript, size: int, made: checkpoints.Along, opened: OpenedChat) -> bool:
    """Whether a worker has to look at a chat whose next request has this size."""
    if handed.compactor == chats.COMPACTS_ITSELF or opened.left_alone:
        return False
    # What an interim summary covers is to be read by a summariser.
    return size >= handed.policy.prepare_at or bool(made.interim) or opened.wants_bodies


def check_chain(handed: Transcript) -> None:
    """Checks what can be seen without the database.

    No id comes twice, and every digest follows from the one before.

    Raises:
        Unprocessable: with the place of the first contradiction.
    """
    seen = {handed.after[0]} if handed.after else set()
    above = handed.after[1] if handed.after else ROOT
    for place, message in enumerate(handed.messages):
        if message.id in seen:
            raise Unprocessable(
                f"messages[{place}] has the id {message.id!r}, which is on this path already:"
                " a path has no cycle",
                pointer=f"/messages/{place}/id",
            )
        expected = digest(above, message.id, message.fingerprint)
        if message.digest != expected:
            raise Unprocessable(
                f"messages[{place}].digest does not follow from its parent's digest, its id and"
                " its fingerprint; send the path from its root, with digests computed again",
                pointer=f"/messages/{place}/digest",
            )
        seen.add(message.id)
        above = message.digest


async def _open(connection: AsyncConnection, handed: Transcript) -> OpenedChat:
    """The chat, locked."""
    await tombstones.begin(connection, handed.tenant, handed.chat, handed.user)
    opened = await chats.open_chat(
        connection,
        handed.tenant,
        handed.chat,
        user=handed.user,
        model=handed.model,
        window=handed.policy.window_tokens,
        window_assumed=handed.window_assumed,
        expires_in=handed.expires_in,
        compactor=handed.compactor,
    )
    # Now, because somebody who deletes may have had the row.
    names = [Named("chat", handed.chat), Named("user", handed.user)]
    if await tombstones.deleted(connection, handed.tenant, names):
        raise Problem(
            "this chat or its user was deleted; nothing of it is stored before a day is over, so"
            " stop sending it",
            ProblemType.GONE,
        )
    if opened.wants_bodies and handed.after:
        raise Conflict("texts above `after` are wanted again; send the whole path")
    return opened


async def _check_user(
    connection: AsyncConnection, opened: OpenedChat, handed: Transcript, known: _Known
) -> None:
    """Notes who writes. A chat stays the user's who began it, as long as anything of it is stored.

    Raises:
        Problem: NOT_THEIRS: the path goes on from no stored message.
    """
    goes_on = known.base is not None or known.same > 0
    if handed.user != opened.begun_by and not goes_on:
        if await messages.has_any(connection, opened.key):
            raise Problem(
                "this chat is stored for another user, and the path has no message of it: send it"
                " under its own chat id; an operator may delete what is stored of the chat",
                ProblemType.NOT_THEIRS,
            )
        await chats.begin_anew(connection, opened.key, handed.user)
    await authors.add(connection, opened.key, handed.user)


async def _known(connection: AsyncConnection, chat: ChatKey, handed: Transcript) -> _Known:
    base = await _base(connection, chat, handed.after)
    found = await messages.find(connection, chat, [message.id for message in handed.messages])
    await _check_cycle(connection, chat, handed, base, found)
    same = _stored_already(handed, found)
    gone = await _without_text(connection, chat, handed, same)
    return _Known(base, found, same, gone)


def _wanted(handed: Transcript, known: _Known) -> list[RawMessage]:
    """What is to be read of each message: only those are weighed that are to be stored."""
    newest = handed.messages[-1]
    above = known.base.depth if known.base else 0
    return [
        RawMessage(
            bytes(message.text),
            whole=place >= known.same or message.id in known.gone,
            newest=message is newest,
            searched=depth > STORED_FROM,
        )
        for place, (depth, message) in enumerate(enumerate(handed.messages, above + 1))
    ]


async def _base(
    connection: AsyncConnection, chat: ChatKey, after: tuple[str, str] | None
) -> MessageRow | None:
    if after is None:
        return None
    row = (await messages.find(connection, chat, [after[0]])).get(after[0])
    # Another digest means that something above was edited, and totals would go on from a wrong one.
    if row is None or row.digest != after[1]:
        raise _unknown_after()
    return row


def _unknown_after() -> Conflict:
    return Conflict("`after` is not stored for this chat; send the whole path")


async def _check_cycle(
    connection: AsyncConnection,
    chat: ChatKey,
    handed: Transcript,
    base: MessageRow | None,
    found: dict[str, MessageRow],
) -> None:
    """No message may be its own ancestor."""
    # An ancestor is above `after`: without a row that high, the path need not be read.
    if base is None or all(row.depth >= base.depth for row in found.values()):
        return
    above = {row.message_id for row in await messages.path(connection, chat, base.message_id)}
    for place, message in enumerate(handed.messages):
        if message.id in above:
            raise Unprocessable(
                f"messages[{place}] is an ancestor of `after`: a path has no cycle",
                pointer=f"/messages/{place}/id",
            )


def _stored_already(handed: Transcript, found: dict[str, MessageRow]) -> int:
    """How many of the first messages are stored where they were sent."""
    for place, message in enumerate(handed.messages):
        row = found.get(message.id)
        # Below the first difference, every digest is another one.
        if row is None or row.digest != message.digest:
            return place
    return len(handed.messages)


async def _without_text(
    connection: AsyncConnection, chat: ChatKey, handed: Transcript, same: int
) -> set[str]:
    """Those of the first messages whose texts are not kept any more."""
    if not same:
        return set()
    return await messages.without_body(
        connection, chat, [message.id for message in handed.messages[:same]]
    )


def _check_contents(
    handed: Transcript, found: dict[str, MessageRow], taken: Sequence[Taken]
) -> None:
    """A fingerprint may not stand for two contents."""
    for place, (message, read) in enumerate(zip(handed.messages, taken, strict=True)):
        row = found.get(message.id)
        if row and row.fingerprint == message.fingerprint and row.content_hash != read.content_hash:
            raise Unprocessable(
                f"messages[{place}] has a fingerprint that was ingested with other content",
                pointer=f"/messages/{place}/fingerprint",
            )


async def _give_back(
    connection: AsyncConnection,
    chat: ChatKey,
    handed: Transcript,
    taken: Sequence[Taken],
    gone: set[str],
) -> None:
    """Stores the texts again of messages whose texts were not kept."""
    bodies = {
        message.id: (read.weighed.body, read.weighed.words)
        for message, read in zip(handed.messages, taken, strict=True)
        if message.id in gone and read.weighed
    }
    if bodies:
        await messages.give_back(connection, chat, bodies)


async def _store(
    connection: AsyncConnection,
    opened: OpenedChat,
    handed: Transcript,
    known: _Known,
    taken: Sequence[Taken],
) -> tuple[list[MessageRow], int]:
    """Writes the rows that are new or moved.

    Returns:
        The rows of all messages that were sent, root to leaf, and the number of new masks.
    """
    rows = [known.found[message.id] for message in handed.messages[: known.same]]
    changed = handed.messages[known.same :]
    if not changed:
        return rows, 0
    chat = opened.key
    moved = [message.id for message in changed if message.id in known.found]
    # What hung below a moved message has totals and digests of the old path. Those sent are kept
    # as rows, to be written over.
    if moved:
        kept = [message.id for message in handed.messages]
        await messages.drop_below(connection, chat, moved, keep=kept)
    digests = [message.digest for message in changed]
    made = await messages.checkpoints_by_digest(connection, chat, digests)
    parent = rows[-1] if rows else known.base
    fresh, masks = _fresh(changed, taken[known.same :], parent, made)
    await messages.write(connection, chat, fresh, opened.author(handed.user))
    new = [row for row, _, _ in fresh]
    await _take_authors_over(connection, chat, new)
    return rows + new, masks


async def _take_authors_over(
    connection: AsyncConnection, chat: ChatKey, new: Sequence[MessageRow]
) -> None:
    """Of a fork or a clone, others may have written what is new."""
    if len(new) > _A_TURN:
        await authors.copy(connection, chat, [row.message_id for row in new])


def _fresh(
    changed: Sequence[Handed],
    taken: Sequence[Taken],
    parent: MessageRow | None,
    made: dict[str, int],
) -> tuple[list[tuple[MessageRow, bytes, bytes | None]], int]:
    """The rows below `parent`, each with its body and its words, and the number of new masks.

    `made` are the checkpoints that end at one of the messages, by digest.
    """
    fresh = list[tuple[MessageRow, bytes, bytes | None]]()
    masks = 0
    for message, read in zip(changed, taken, strict=True):
        if read.weighed is None:
            raise RuntimeError("a message that is to be stored was not weighed")
        parent = _row(message, read.content_hash, read.weighed, parent, made)
        fresh.append((parent, read.weighed.body, read.weighed.words))
        masks += read.weighed.masks
    return fresh, masks


async def _take(texts: Texts, wanted: Sequence[RawMessage], mask_secrets: bool) -> list[Taken]:
    """Reads the messages; of one that is too hard to read, a note of its size is stored."""
    taken: list[Taken] = []
    hard = 0
    for some in _slices(wanted):
        read: list[Taken] | None = None
        # Each that was too hard took a whole deadline, for which its user's other uploads wait.
        if hard < _MOST_HARD or _bytes(some) <= _SMALL:
            read = await _read(texts, some, mask_secrets, len(taken))
        if read is None:
            hard += 1
            read = await asyncio.to_thread(intake.unread, some, len(taken))
        taken += read
    return taken


async def _read(
    texts: Texts, some: Sequence[RawMessage], mask_secrets: bool, before: int
) -> list[Taken] | None:
    """What is in some messages, after so many others; None when they are too hard to read."""
    if _bytes(some) <= _SMALL:
        return await asyncio.to_thread(intake.take, some, mask_secrets, before)
    try:
        return await texts.run(intake.take, some, mask_secrets, before)
    except TextTooHard as error:
        log.warning("handover.too_hard", kind=error.kind, messages=len(some))
        return None
    except TextProcessAway as error:
        raise Unavailable(str(error)) from error


def _bytes(some: Sequence[RawMessage]) -> int:
    return sum(len(one.text) for one in some)


def _slices(wanted: Sequence[RawMessage]) -> Iterator[list[RawMessage]]:
    """The messages in slices of about `_SLICE` bytes, a larger one alone."""
    some: list[RawMessage] = []
    size = 0
    for one in wanted:
        if some and size + len(one.text) > _SLICE:
            yield some
            some, size = [], 0
        some.append(one)
        size += len(one.text)
    if some:
        yield some


def _row(
    message: Handed,
    content_hash: str,
    weighed: Weighed,
    parent: MessageRow | None,
    made: dict[str, int],
) -> MessageRow:
    """The row of a message below its parent's, with running totals."""
    depth, path_tokens, inherited = 0, 0, None
    if parent:
        depth, path_tokens, inherited = parent.depth, parent.path_tokens, parent.checkpoint_id
    return MessageRow(
        message_id=message.id,
        parent_id=parent.message_id if parent else None,
        role=weighed.role,
        depth=depth + 1,
        fingerprint=message.fingerprint,
        digest=message.digest,
        content_hash=content_hash,
        tokens=weighed.tokens,
        path_tokens=path_tokens + weighed.tokens,
        step_tokens=weighed.step_tokens,
        step_calls=weighed.step_calls,
        sent_at=weighed.sent_at,
        checkpoint_id=made.get(message.digest, inherited),
    )


async def _adopt(
    connection: AsyncConnection, chat: ChatKey, handed: Transcript, found: dict[str, MessageRow]
) -> dict[int, int]:
    """The summaries of another chat that fit the new messages, copied.

    A message that was here already had its chance: a reset has dropped its summaries, and those
    must not come back.
    """
    new = [message.digest for message in handed.messages if not _is_known(message, found)]
    if not new:
        return {}
    return await forks.adopt(connection, chat, None if handed.anyone else handed.user, new)


def _is_known(message: Handed, found: dict[str, MessageRow]) -> bool:
    row = found.get(message.id)
    return row is not None and row.digest == message.digest


async def _deepest(
    connection: AsyncConnection, chat: ChatKey, leaf: MessageRow, adopted: dict[int, int]
) -> checkpoints.Along:
    """The deepest checkpoint of the path, if it has one; what was adopted is as deep as any."""
    deepest = list(adopted.values())[-1] if adopted else leaf.checkpoint_id
    return await checkpoints.along(connection, chat, {deepest or 0})


async def _overhead(
    connection: AsyncConnection,
    chat: ChatKey,
    handed: Transcript,
    newest: Taken,
    above: MessageRow | None,
    adopted: dict[int, int],
) -> int | None:
    """What the provider counted for the `newest` answer's request beyond our estimate.

    `above` is the message that it answers. None when that is not known.
    """
    if handed.served is None or not newest.prompt_tokens:
        return None
    # A tool loop's usage is that of its last call, which had read all of the answer but its last
    # step.
    estimated = (above.path_tokens if above else 0) + newest.asked_tokens
    if handed.served:
        # A fork's first request had a checkpoint of the chat that lent it; by now it is adopted.
        own = adopted.get(handed.served, handed.served)
        used = await checkpoints.find(connection, chat, own)
        if used is None:
            return None
        estimated += used.tokens - used.covered_tokens
    return policy.measured_overhead(
        newest.prompt_tokens, estimated, handed.policy.window_tokens, handed.beside or 0
    )


def _size(leaf: MessageRow, made: Sequence[Checkpoint], overhead: int) -> int:
    """What the next request on this path costs with its deepest checkpoint, if it has one.

    A first look without the path, whatever its length; the worker's plan has the last word.
    """
    return leaf.path_tokens + overhead + sum(one.tokens - one.covered_tokens for one in made)
