"""Takes a handed-over path: checks it, weighs it, stores it, and marks work due, all in one transaction.

Secrets in what tools gave are masked in what is stored; fingerprints, hashes and sizes are those of
what was handed over. Idempotent: the same hand-over again changes nothing. The path of one chat
grows from what is stored (`after`), so what is uploaded and counted is what is new. A chat whose
work waits for texts that are not kept any more takes only a whole path; a text that comes again is
stored again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import policy
from service.errors import Conflict, TextProcessAway, TextTooHard, Unavailable, Unprocessable
from service.planning import Checkpoint
from service.processes import Texts, intake
from service.processes.intake import Taken, Wanted, Weighed
from service.storage import chats, checkpoints, forks, messages, work
from service.storage.messages import Row
from service.storage.tenancy import ChatKey
from service.transcript import ROOT, digest

_SMALL = 2**14  # bytes; reading so few takes milliseconds, whatever they are
_SLICE = 2**16  # bytes that are read in one go
_MOST_HARD = 2  # deadlines that one hand-over may cost

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Handed:
    """One message as it was handed over; `text` is all of it as JSON (`intake.HandedMessage`)."""

    id: str
    fingerprint: str
    digest: str
    text: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Transcript:
    """A path that grew: the messages that follow `after` (id, digest), root to leaf; None means from the root on.

    `served` is the checkpoint that was in the request which the newest answer replied to, 0 when
    none was, and None when that is not known; the provider's `usage` is compared with it.
    `overhead` is what went along with the messages, in tokens, as the filter estimates it: it
    counts while no `usage` could be compared. After `expires_in` seconds the chat goes, unless it
    is handed over again. `compactor` is who else compresses it: `open-webui`, `provider`, or None.
    `anyone`: a fork adopts what any chat of the tenant lends, not only those of `user`.
    """

    tenant: int
    chat: str
    user: str
    model: str
    policy: policy.Policy
    after: tuple[str, str] | None
    messages: Sequence[Handed]
    served: int | None
    overhead: int = 0
    expires_in: int | None = None
    compactor: str | None = None
    anyone: bool = False
    mask_secrets: bool = True


@dataclass(frozen=True, slots=True)
class Accepted:
    """What came of it. `wake_up` is the key to ring with when a worker has to be woken, in `delay` seconds."""

    due: bool
    wake_up: str | None = None
    delay: float = 0


async def ingest(
    engine: AsyncEngine, texts: Texts, handed: Transcript, debounce: float
) -> Accepted:
    """Stores the path and marks work due when the policy asks for it; at once when the next request is too large.

    Raises:
        Conflict: `after` is not stored, or texts above it are wanted again: send the whole path.
        Unprocessable: the path contradicts itself, or what is stored; nothing was stored.
        Unavailable: large texts cannot be read, because no text process starts.
    """
    check_chain(handed)
    async with engine.begin() as connection:
        chat, wanted = await chats.open_chat(
            connection,
            handed.tenant,
            handed.chat,
            user=handed.user,
            model=handed.model,
            window=handed.policy.window_tokens,
            expires_in=handed.expires_in,
            compactor=handed.compactor,
        )
        if wanted and handed.after:
            raise Conflict("texts above `after` are wanted again; send the whole path")
        base = await _base(connection, chat, handed.after)
        found = await messages.find(connection, chat, [message.id for message in handed.messages])
        await _check_cycle(connection, chat, handed, base, found)
        same = _stored_already(handed, found)
        gone = await _without_text(connection, chat, handed, same)
        wanted_texts = [
            Wanted(
                bytes(message.text),
                place >= same or message.id in gone,
                message is handed.messages[-1],
            )
            for place, message in enumerate(handed.messages)
        ]
        taken = await _take(texts, wanted_texts, handed.mask_secrets)
        _check_contents(handed, found, taken)
        await _give_back(connection, chat, handed, taken, gone)
        rows, masks = await _store(connection, chat, handed, base, found, taken, same)
        adopted = await _adopt(connection, chat, handed, found)
        measured = await _overhead(connection, chat, handed, taken[-1], rows, base, adopted)
        estimated = min(handed.overhead, handed.policy.window_tokens)
        overhead = await chats.ingested(
            connection, chat, rows[-1].message_id, measured, estimated, masks
        )
        deepest = [*adopted.values()][-1] if adopted else rows[-1].checkpoint_id
        made = await checkpoints.along(connection, chat, {deepest or 0})
        size = _size(rows[-1], [*made.settled, *made.interim], overhead)
        # What an interim summary covers is to be read by a summariser.
        enough = size >= handed.policy.prepare_at or made.interim or wanted
        if handed.compactor == chats.COMPACTS_ITSELF or not enough:
            return Accepted(due=False)
        pressing = size > handed.policy.apply_at
        delay = 0 if pressing else debounce
        wake_up = await work.mark_due(connection, chat, delay, pressing=pressing)
        return Accepted(due=True, wake_up=wake_up, delay=delay)


def check_chain(handed: Transcript) -> None:
    """Checks what can be seen without the database: no id twice, every digest follows from the one before.

    Raises:
        Unprocessable: with the place of the first contradiction.
    """
    seen = {handed.after[0]} if handed.after else set()
    above = handed.after[1] if handed.after else ROOT
    for place, message in enumerate(handed.messages):
        if message.id in seen:
            raise Unprocessable(
                f"messages[{place}] has the id {message.id!r}, which is on this path already: a path has no cycle",
                pointer=f"/messages/{place}/id",
            )
        expected = digest(above, message.id, message.fingerprint)
        if message.digest != expected:
            raise Unprocessable(
                f"messages[{place}].digest does not follow from its parent's digest, its id and its fingerprint; "
                "send the path from its root, with digests computed anew",
                pointer=f"/messages/{place}/digest",
            )
        seen.add(message.id)
        above = message.digest


async def _base(
    connection: AsyncConnection, chat: ChatKey, after: tuple[str, str] | None
) -> Row | None:
    if after is None:
        return None
    row = (await messages.find(connection, chat, [after[0]])).get(after[0])
    if row is None or row.digest != after[1]:
        raise Conflict("`after` is not stored for this chat; send the whole path")
    return row


async def _check_cycle(
    connection: AsyncConnection,
    chat: ChatKey,
    handed: Transcript,
    base: Row | None,
    found: dict[str, Row],
) -> None:
    """No message may be its own ancestor."""
    if base is None or all(row.depth >= base.depth for row in found.values()):
        return
    above = {row.message_id for row in await messages.path(connection, chat, base.message_id)}
    for place, message in enumerate(handed.messages):
        if message.id in above:
            raise Unprocessable(
                f"messages[{place}] is an ancestor of `after`: a path has no cycle",
                pointer=f"/messages/{place}/id",
            )


def _stored_already(handed: Transcript, found: dict[str, Row]) -> int:
    """How many of the first messages are stored where they were handed over."""
    for place, message in enumerate(handed.messages):
        row = found.get(message.id)
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


def _check_contents(handed: Transcript, found: dict[str, Row], taken: Sequence[Taken]) -> None:
    """A fingerprint may not stand for two contents."""
    for place, (message, read) in enumerate(zip(handed.messages, taken, strict=True)):
        row = found.get(message.id)
        if row and row.fingerprint == message.fingerprint and row.content_hash != read.content_hash:
            raise Unprocessable(
                f"messages[{place}] has a fingerprint that was handed over with other content",
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
        message.id: read.weighed.body
        for message, read in zip(handed.messages, taken, strict=True)
        if message.id in gone and read.weighed
    }
    if bodies:
        await messages.give_back(connection, chat, bodies)


async def _store(
    connection: AsyncConnection,
    chat: ChatKey,
    handed: Transcript,
    base: Row | None,
    found: dict[str, Row],
    taken: Sequence[Taken],
    same: int,
) -> tuple[list[Row], int]:
    """Writes the rows that are new or moved; returns those of the whole hand-over, root to leaf, and the new masks."""
    rows = [found[message.id] for message in handed.messages[:same]]
    changed = handed.messages[same:]
    if not changed:
        return rows, 0
    moved = [message.id for message in changed if message.id in found]
    if moved:
        await messages.drop_below(
            connection, chat, moved, keep=[message.id for message in handed.messages]
        )
    made = await messages.checkpoints_by_digest(
        connection, chat, [message.digest for message in changed]
    )
    parent, fresh, masks = rows[-1] if rows else base, list[tuple[Row, bytes]](), 0
    for message, read in zip(changed, taken[same:], strict=True):
        if read.weighed is None:
            raise RuntimeError("a message that is to be stored was not weighed")
        parent = _row(message, read.content_hash, read.weighed, parent, made)
        fresh.append((parent, read.weighed.body))
        masks += read.weighed.masks
    await messages.write(connection, chat, fresh)
    return rows + [row for row, _ in fresh], masks


async def _take(texts: Texts, wanted: Sequence[Wanted], mask_secrets: bool) -> list[Taken]:
    """Reads the messages; of one that is too hard to read, a note of its size is stored.

    After some of those, no more of this hand-over is tried in full: each took a whole deadline, and
    the transaction is open.
    """
    taken: list[Taken] = []
    hard = 0
    for some in _slices(wanted):
        if sum(len(one.text) for one in some) <= _SMALL:
            taken += await asyncio.to_thread(intake.take, some, mask_secrets, len(taken))
            continue
        if hard == _MOST_HARD:
            taken += await asyncio.to_thread(intake.unread, some, len(taken))
            continue
        try:
            taken += await texts.run(intake.take, some, mask_secrets, len(taken))
        except TextTooHard as error:
            hard += 1
            log.warning("handover.too_hard", kind=error.kind, messages=len(some))
            taken += await asyncio.to_thread(intake.unread, some, len(taken))
        except TextProcessAway as error:
            raise Unavailable(str(error)) from error
    return taken


def _slices(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """The messages in slices of about `_SLICE` bytes, a larger one alone."""
    some: list[Wanted] = []
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
    message: Handed, content_hash: bytes, weighed: Weighed, parent: Row | None, made: dict[str, int]
) -> Row:
    """The row of a message below its parent's, with running totals."""
    return Row(
        message_id=message.id,
        parent_id=parent.message_id if parent else None,
        role=weighed.role,
        depth=parent.depth + 1 if parent else 1,
        fingerprint=message.fingerprint,
        digest=message.digest,
        content_hash=content_hash,
        tokens=weighed.tokens,
        path_tokens=(parent.path_tokens if parent else 0) + weighed.tokens,
        step_tokens=weighed.step_tokens,
        sent_at=weighed.sent_at,
        checkpoint_id=made.get(message.digest, parent.checkpoint_id if parent else None),
    )


async def _adopt(
    connection: AsyncConnection, chat: ChatKey, handed: Transcript, found: dict[str, Row]
) -> dict[int, int]:
    """The summaries of another chat that fit the new messages, copied. What was here already had its chance.

    A reset has dropped summaries of messages that are here: those must not come back.
    """
    new = [
        one.digest
        for one in handed.messages
        if one.id not in found or found[one.id].digest != one.digest
    ]
    return (
        await forks.adopt(connection, chat, None if handed.anyone else handed.user, new)
        if new
        else {}
    )


async def _overhead(
    connection: AsyncConnection,
    chat: ChatKey,
    handed: Transcript,
    newest: Taken,
    rows: Sequence[Row],
    base: Row | None,
    adopted: dict[int, int],
) -> int | None:
    """What the provider counted for the `newest` answer's request beyond our estimate; None when that is not known.

    A fork's first request had a checkpoint of the chat that lent it; by now it is `adopted`.
    """
    if handed.served is None or not newest.prompt_tokens:
        return None
    above = rows[-2] if len(rows) > 1 else base
    # A tool loop's usage is that of its last call, which had read all of the answer but its last
    # step.
    estimated = (above.path_tokens if above else 0) + newest.asked_tokens
    if handed.served:
        used = await checkpoints.find(connection, chat, adopted.get(handed.served, handed.served))
        if used is None:
            return None
        estimated += used.tokens - used.covered_tokens
    return policy.measured_overhead(
        newest.prompt_tokens, estimated, handed.policy.window_tokens, handed.overhead
    )


def _size(leaf: Row, made: Sequence[Checkpoint], overhead: int) -> int:
    """What the next request on this path costs with its deepest checkpoint, if it has one.

    A first look without the path, whatever its length; the worker's plan has the last word.
    """
    return leaf.path_tokens + overhead + sum(one.tokens - one.covered_tokens for one in made)
