"""Takes a handed-over path: checks it, weighs it, stores it, and marks work due, all in one transaction.

Secrets in what tools gave are masked in what is stored; fingerprints, hashes and sizes are those of what was handed
over. Idempotent: the same hand-over again changes nothing. The path of one chat grows from what is stored (`after`), so
what is uploaded and counted is what is new. A chat whose work waits for texts that are not kept any more takes only a
whole path; a text that comes again is stored again.
"""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import planning
from service.errors import Conflict, Unprocessable
from service.storage import chats, checkpoints, codec, forks, transcripts, work
from service.storage.owner import ChatKey
from service.storage.transcripts import Row
from service.transcript import ROOT, Stored, digest, masked, native_tokens, parse, step_tokens, steps


@dataclass(frozen=True, slots=True)
class Handed:
    """One message as it was handed over."""

    id: str
    fingerprint: str
    digest: str
    stored: Stored


@dataclass(frozen=True, slots=True)
class HandOver:
    """A path that grew: the messages that follow `after` (id, digest), root to leaf; None means from the root on.

    `served` is the checkpoint that was in the request which the newest answer replied to, 0 when none was, and None
    when that is not known; the provider's `usage` is compared with it. `overhead` is what went along with the messages,
    in tokens, as the filter estimates it: it counts while no `usage` could be compared. After `expires_in` seconds the
    chat goes, unless it is handed over again. `compactor` is who else compresses it: `open-webui`, `provider`, or None.
    `anyone`: a fork adopts what any chat of the tenant lends, not only those of `user`.
    """

    tenant: int
    chat: str
    user: str
    model: str
    policy: planning.Policy
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
    """What came of it. `ring` is the key to ring with when a worker has to be woken."""

    due: bool
    ring: str | None = None


async def hand_over(engine: AsyncEngine, handed: HandOver, debounce: float) -> Accepted:
    """Stores the path and marks work due when the policy asks for it.

    Raises:
        Conflict: `after` is not stored, or texts above it are wanted again: send the whole path.
        Unprocessable: the path contradicts itself, or what is stored; nothing was stored.
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
        found = await transcripts.find(connection, chat, [message.id for message in handed.messages])
        await _check_stored(connection, chat, handed, base, found)
        rows, masks = await _store(connection, chat, handed, base, found)
        adopted = await _adopt(connection, chat, handed, found)
        measured = await _overhead(connection, chat, handed, rows, base, adopted)
        estimated = min(handed.overhead, handed.policy.window_tokens // 2)
        overhead = await chats.handed_over(connection, chat, rows[-1].message_id, measured, estimated, masks)
        deepest = [*adopted.values()][-1] if adopted else rows[-1].checkpoint_id
        size = await _size(connection, chat, rows[-1], deepest, overhead)
        if handed.compactor == chats.COMPACTS_ITSELF or (size < handed.policy.prepare_at and not wanted):
            return Accepted(due=False)
        pressing = size > handed.policy.apply_at
        return Accepted(due=True, ring=await work.mark_due(connection, chat, debounce, pressing=pressing))


def check_chain(handed: HandOver) -> None:
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


async def _base(connection: AsyncConnection, chat: ChatKey, after: tuple[str, str] | None) -> Row | None:
    if after is None:
        return None
    row = (await transcripts.find(connection, chat, [after[0]])).get(after[0])
    if row is None or row.digest != after[1]:
        raise Conflict("`after` is not stored for this chat; send the whole path")
    return row


async def _check_stored(
    connection: AsyncConnection, chat: ChatKey, handed: HandOver, base: Row | None, found: dict[str, Row]
) -> None:
    """No message may be its own ancestor, and a fingerprint may not stand for two contents."""
    if base and any(row.depth < base.depth for row in found.values()):
        above = {row.message_id for row in await transcripts.path(connection, chat, base.message_id)}
        for place, message in enumerate(handed.messages):
            if message.id in above:
                raise Unprocessable(
                    f"messages[{place}] is an ancestor of `after`: a path has no cycle",
                    pointer=f"/messages/{place}/id",
                )
    for place, message in enumerate(handed.messages):
        row = found.get(message.id)
        if row and row.fingerprint == message.fingerprint and row.content_hash != _content_hash(message.stored):
            raise Unprocessable(
                f"messages[{place}] has a fingerprint that was handed over with other content",
                pointer=f"/messages/{place}/fingerprint",
            )


async def _store(
    connection: AsyncConnection, chat: ChatKey, handed: HandOver, base: Row | None, found: dict[str, Row]
) -> tuple[list[Row], int]:
    """Writes the rows that are new or moved; returns those of the whole hand-over, root to leaf, and the new masks."""
    same = 0
    while same < len(handed.messages):
        row = found.get(handed.messages[same].id)
        if row is None or row.digest != handed.messages[same].digest:
            break
        same += 1
    rows = [found[message.id] for message in handed.messages[:same]]
    if rows:
        await _give_back(connection, chat, handed, same)
    changed = handed.messages[same:]
    if not changed:
        return rows, 0
    moved = [message.id for message in changed if message.id in found]
    if moved:
        await transcripts.drop_below(connection, chat, moved, keep=[message.id for message in handed.messages])
    made = await transcripts.checkpoints_by_digest(connection, chat, [message.digest for message in changed])
    new = await asyncio.to_thread(_packed, changed, handed.mask_secrets)
    fresh = await asyncio.to_thread(_weigh, changed, rows[-1] if rows else base, made)
    await transcripts.write(connection, chat, [(row, new[row.message_id].body) for row in fresh])
    return rows + fresh, sum(one.masks for one in new.values())


async def _give_back(connection: AsyncConnection, chat: ChatKey, handed: HandOver, same: int) -> None:
    """Stores the texts again of those of the first messages whose texts are not kept any more."""
    messages = handed.messages[:same]
    gone = await transcripts.without_body(connection, chat, [message.id for message in messages])
    if gone:
        again = [message for message in messages if message.id in gone]
        packed = await asyncio.to_thread(_packed, again, handed.mask_secrets)
        await transcripts.give_back(connection, chat, {identity: one.body for identity, one in packed.items()})


@dataclass(frozen=True, slots=True)
class _Packed:
    """What is stored of a message, and how many secrets were masked in it."""

    body: bytes
    masks: int


def _packed(messages: Sequence[Handed], mask_secrets: bool) -> dict[str, _Packed]:
    out = {}
    for message in messages:
        stored, masks = _without_nul(message.stored), 0
        if mask_secrets:
            stored, masks = masked(stored)
        out[message.id] = _Packed(codec.pack(stored), masks)
    return out


def _weigh(messages: Sequence[Handed], parent: Row | None, made: dict[str, int]) -> list[Row]:
    """The rows of new messages, with running totals."""
    out = []
    for message in messages:
        stored = _without_nul(message.stored)
        parsed = parse(stored)
        tokens = native_tokens(stored)
        parent = Row(
            message_id=message.id,
            parent_id=parent.message_id if parent else None,
            role=parsed.role,
            depth=parent.depth + 1 if parent else 1,
            fingerprint=message.fingerprint,
            digest=message.digest,
            content_hash=_content_hash(message.stored),
            tokens=tokens,
            path_tokens=(parent.path_tokens if parent else 0) + tokens,
            step_tokens=[step_tokens(step) for step in steps(parsed)],
            sent_at=parsed.timestamp,
            checkpoint_id=made.get(message.digest, parent.checkpoint_id if parent else None),
        )
        out.append(parent)
    return out


def _without_nul(value: Any) -> Any:  # noqa: ANN401 - JSON
    """PostgreSQL has no NUL, neither in texts nor in JSON, and a summary or a ledger would carry it there."""
    match value:
        case str():
            return value.replace("\0", "")
        case list():
            return [_without_nul(one) for one in value]
        case dict():
            return {_without_nul(key): _without_nul(one) for key, one in value.items()}
        case _:
            return value


def _content_hash(stored: Stored) -> bytes:
    """Of what the model sees of a message: its role, and its output or else its text."""
    seen = [stored.get("role"), stored.get("output") or stored.get("content") or ""]
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).digest()


async def _adopt(connection: AsyncConnection, chat: ChatKey, handed: HandOver, found: dict[str, Row]) -> dict[int, int]:
    """The summaries of another chat that fit the new messages, copied. What was here already had its chance.

    A reset has dropped summaries of messages that are here: those must not come back.
    """
    new = [one.digest for one in handed.messages if one.id not in found or found[one.id].digest != one.digest]
    return await forks.adopt(connection, chat, None if handed.anyone else handed.user, new) if new else {}


async def _overhead(
    connection: AsyncConnection,
    chat: ChatKey,
    handed: HandOver,
    rows: Sequence[Row],
    base: Row | None,
    adopted: dict[int, int],
) -> int | None:
    """What the provider counted for the newest answer's request beyond our estimate; None when that is not known.

    A fork's first request had a checkpoint of the chat that lent it; by now it is `adopted`.
    """
    counted = parse(handed.messages[-1].stored).prompt_tokens
    if handed.served is None or not counted:
        return None
    above = rows[-2] if len(rows) > 1 else base
    # A tool loop's usage is that of its last call, which had read all of the answer but its last step.
    estimated = (above.path_tokens if above else 0) + sum(rows[-1].step_tokens[:-1])
    if handed.served:
        used = await checkpoints.find(connection, chat, adopted.get(handed.served, handed.served))
        if used is None:
            return None
        estimated += used.tokens - used.covered_tokens
    return planning.measured_overhead(counted, estimated, handed.policy.window_tokens)


async def _size(connection: AsyncConnection, chat: ChatKey, leaf: Row, deepest: int | None, overhead: int) -> int:
    """What the next request on this path costs with its deepest checkpoint.

    A first look without the path, whatever its length; the worker's plan has the last word.
    """
    made = await checkpoints.find(connection, chat, deepest)
    return leaf.path_tokens + overhead + (made.tokens - made.covered_tokens if made else 0)
