"""Use case: what a request should carry.

That is a stored summary and its boundary, or that none is needed, ready or known. One indexed read,
no LLM, no tokenizer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Literal

import msgspec
import structlog
from msgspec import Meta
from msgspec.structs import replace

from service.errors import KeyMissing
from service.planning import policy
from service.planning.plan import Checkpoint
from service.request import edit
from service.request.edit import Edit
from service.storage import chats, contexts
from service.storage.contexts import Lookup, StoredContext
from service.storage.database import Database
from service.storage.sealing import Seal

log = structlog.get_logger(__name__)


_LOOK_EVERY = 0.03  # seconds

ContextStatus = Literal["ready", "not_needed", "pending", "unknown"]


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """Estimated size of the request without and with the summary."""

    before: int
    after: int
    overhead: Annotated[
        int,
        Meta(
            description="Part of both that is not messages (system prompt, tool specifications),"
            " as the provider counted it."
        ),
    ] = 0


class ContextAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored summary for a request, if there is one and the request needs it."""

    status: ContextStatus
    known: Annotated[
        str | None,
        Meta(
            description="The newest message of the path that is stored. Null when none is, also"
            " for a fork that is served from another chat: send the whole path then."
        ),
    ] = None
    window: Annotated[
        int | None, Meta(description="The context window that the answer is for, in tokens.")
    ] = None
    checkpoint_id: int | None = None
    covered_until: Annotated[
        str | None, Meta(description="Id of the last message that the summary covers.")
    ] = None
    covered_digest: Annotated[
        str | None,
        Meta(
            description="Its digest; use the summary only if yours is equal. Null when the boundary"
            " is above the pairs of `path`: ask again with those down to it."
        ),
    ] = None
    covered_messages: int | None = None
    tokens: Tokens | None = None
    edit: Annotated[
        Edit | None,
        Meta(
            description="How to put the summary into the request; only with `ready`. Null when the"
            " description does not reach the boundary, or does not match what is stored."
        ),
    ] = None
    excess: Annotated[
        int | None,
        Meta(
            description="Tokens by which the request with the summary is too large for the window"
            " and the answer; negative when there is room."
        ),
    ] = None
    status_text: Annotated[
        str | None, Meta(description="For users: what the summary makes of the request.")
    ] = None


async def answer(
    database: Database, lookup: Lookup, request: edit.RequestShape | None
) -> ContextAnswer:
    """What the request should carry, and how it is put in.

    Where texts cannot be opened, the request goes on as if nothing were stored.
    """
    try:
        decision, summary = await stored(database, lookup)
    except KeyMissing as error:
        log.warning("context.key_missing", chat=lookup.chat, why=str(error))
        # Said to be known is what is above the question. Else the filter would upload the whole
        # path after each turn, which would be refused for the same reason. Once there is a key, or
        # another process answers, that is wrong at worst, and the filter then sends all.
        above = lookup.pairs[1][0] if len(lookup.pairs) > 1 else None
        return ContextAnswer("unknown", known=above, window=lookup.window)
    return _with_edit(decision, summary, lookup, request)


async def written(database: Database, lookup: Lookup, seconds: float) -> None:
    """Waits until a summary lets the request fit, or none is being written, so long at most."""
    await wait_while(partial(_is_missing, database, lookup), seconds)


async def wait_while(is_awaited: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Waits for a summary as long as `is_awaited` says so, and for `seconds` at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            # No event tells of it: another process or machine writes the summary.
            while await is_awaited():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_EVERY)


async def _is_missing(database: Database, lookup: Lookup) -> bool:
    """Whether a summary that would help is being written."""
    async with database.engine.connect() as connection:
        chat = await chats.look(connection, lookup.tenant, lookup.chat)
    # Looked at first: a summary that is published after that is seen below.
    if chat is None or not chat.working:
        return False
    decision, _ = await stored(database, lookup)
    window = decision.window or chat.window
    most = policy.apply_at(window, lookup.apply_at)
    return decision.tokens is not None and decision.tokens.after > min(most, lookup.room or most)


def not_sent(answer: ContextAnswer) -> int:
    """Tokens that a summary keeps out of the request.

    None without an edit: the filter asks again, or sends the request unchanged.
    """
    if answer.edit is None or answer.tokens is None:
        return 0
    return answer.tokens.before - answer.tokens.after


def _with_edit(
    decision: ContextAnswer, summary: str, lookup: Lookup, request: edit.RequestShape | None
) -> ContextAnswer:
    tokens, covered, window = decision.tokens, decision.covered_messages, decision.window
    if tokens is None or window is None:
        return decision
    ids = [message for message, _ in lookup.pairs]
    new = ids.index(decision.known) if decision.known in ids else len(ids)
    estimated = sum(lookup.sizes[:new]) + (lookup.beside or 0)
    constant = tokens.overhead - lookup.running
    excess = edit.excess(window, lookup.room, tokens.after, constant, estimated)
    if covered is None:
        return replace(decision, excess=excess)
    text = edit.summarised(covered, tokens.before, tokens.after)
    proposed = None
    # Without it the filter cannot compare the boundary, and asks again with more.
    if decision.covered_digest is not None:
        recall = request is not None and request.recall
        proposed = edit.propose(request, covered, edit.inserted(summary, recall))
    return replace(decision, excess=excess, status_text=text, edit=proposed)


async def stored(database: Database, lookup: Lookup) -> tuple[ContextAnswer, str]:
    """The answer without its edit, and the words of the summary, which come with `ready` only.

    Raises:
        KeyMissing: this process cannot open what is stored.
    """
    row = await contexts.find(database, lookup)
    # A fork that is not stored yet. A request that does not say who asks is served nothing of other
    # chats (ADR 2).
    if row is None and (lookup.user or lookup.anyone):
        row = await contexts.find_elsewhere(database, lookup)
    if row is None:
        return ContextAnswer("unknown", window=lookup.window), ""
    seal = await database.seals.of(lookup.tenant)
    answer = _decided(row, lookup, seal)
    return answer, contexts.summary(row, seal) if answer.status == "ready" else ""


def _decided(row: StoredContext, lookup: Lookup, seal: Seal) -> ContextAnswer:
    before, window = row.tokens, lookup.window or row.window
    unchanged = ContextAnswer(
        "not_needed",
        known=row.known,
        window=window,
        tokens=Tokens(before, before, row.overhead),
    )
    apply_at = policy.apply_at(window, lookup.apply_at)
    # A long answer needs its room even where the chat alone would not need a summary yet.
    if row.left_alone or before <= min(apply_at, lookup.room or apply_at):
        return unchanged
    checkpoint = row.checkpoint
    # One that saves nothing would only take words away.
    if (
        checkpoint is None
        or not fits(lookup, checkpoint, seal)
        or checkpoint.tokens >= checkpoint.covered_tokens
        or not leaves_room(lookup, checkpoint, window, row.overhead)
    ):
        return replace(unchanged, status="pending")
    boundary = _at_boundary(lookup, checkpoint)
    return replace(
        unchanged,
        status="ready",
        tokens=Tokens(before, before - checkpoint.covered_tokens + checkpoint.tokens, row.overhead),
        checkpoint_id=checkpoint.id,
        covered_until=checkpoint.until,
        covered_digest=boundary[1] if boundary else None,
        covered_messages=checkpoint.messages,
    )


def leaves_room(lookup: Lookup, checkpoint: Checkpoint, window: int, overhead: int) -> bool:
    """False for a summary beside which not even a usual question would fit.

    It was written for a larger window. Nothing of it can be left out of a request, but of a
    question that takes more than a quarter of the window.
    """
    beside, question = max(overhead, lookup.beside or 0), min(lookup.sizes[0], window // 4)
    least = beside + checkpoint.tokens + question
    return edit.excess(window, lookup.room, least, beside, 0) <= 0


def fits(lookup: Lookup, checkpoint: Checkpoint, seal: Seal) -> bool:
    """False when the path shows another message or digest where the checkpoint's coverage ends.

    Above the pairs that were sent, storage has already compared: the digest of the newest known
    message speaks for everything above it.
    """
    if checkpoint.messages > lookup.depth:
        return False
    pair = _at_boundary(lookup, checkpoint)
    if pair is None:
        return True
    message, digest = pair
    return (message, seal.keyed(digest)) == (checkpoint.until, checkpoint.digest)


def _at_boundary(lookup: Lookup, checkpoint: Checkpoint) -> tuple[str, str] | None:
    """The pair of the checkpoint's last covered message; None above the pairs that were sent."""
    place = lookup.depth - checkpoint.messages
    return lookup.pairs[place] if place < len(lookup.pairs) else None
