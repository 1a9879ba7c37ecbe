"""Use case: what a request should carry.

That is a stored summary and its boundary, or that none is needed, ready or known. One indexed read,
no LLM, no tokenizer.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import structlog

from service.errors import KeyMissing
from service.planning import policy
from service.planning.plan import Checkpoint
from service.request import edit
from service.request.edit import Edit
from service.storage import contexts
from service.storage.contexts import Served
from service.storage.database import Database
from service.storage.sealing import Seal

log = structlog.get_logger(__name__)


class Path(NamedTuple):
    """A request's path: its length, and (id, digest) of its newest messages, leaf first."""

    depth: int
    pairs: Sequence[tuple[str, str]]


class Lookup(NamedTuple):
    """A request that asks for a summary. `sizes` are the characters of the pairs' messages.

    `anyone`: a fork is served what any chat of the tenant lends, not only those of `user`. `served`
    says how the model is served.
    """

    tenant: int
    chat: str
    window: int | None
    path: Path
    sizes: Sequence[int]
    user: str | None = None
    anyone: bool = False
    served: Served = Served()


class Decision(NamedTuple):
    """What a request should carry.

    `known` is the newest message of the path that is stored, or is taken for it. `summary`
    and `edit` come with `ready` only; `edit` is None when the request is not described far enough
    for one. `digest` is that of the boundary, as the request has it; None where the
    boundary is above the pairs that were sent. `window` is the one that the answer is for, and
    `overhead` is part of `before` and `after`.
    """

    status: Literal["ready", "not_needed", "pending", "unknown"]
    known: str | None = None
    window: int = 0
    overhead: int = 0
    before: int = 0
    after: int = 0
    checkpoint: Checkpoint | None = None
    digest: str | None = None
    summary: str = ""
    edit: Edit | None = None
    density: float | None = None
    status_text: str = ""


async def answer(database: Database, asked: Lookup, request: edit.Request) -> Decision:
    """What the request should carry, and how it is put in.

    Where texts cannot be opened, the request goes on as if nothing were stored.
    """
    try:
        found = await stored(database, asked)
    except KeyMissing as error:
        log.warning("context.key_missing", chat=asked.chat, why=str(error))
        # Said to be known is what is above the question. Else the filter would upload the whole
        # path after each turn, which would be refused for the same reason. Once there is a key, or
        # another process answers, that is wrong at worst, and the filter then sends all.
        found = Decision("unknown", known=next((one for one, _ in asked.path.pairs[1:]), None))
    return _with_edit(found, asked, request)


def not_sent(decided: Decision) -> int:
    """Tokens that a summary keeps out of the request.

    None without an edit: the filter asks again, or sends the request unchanged.
    """
    return decided.before - decided.after if decided.edit else 0


def _with_edit(found: Decision, asked: Lookup, request: edit.Request) -> Decision:
    if found.status == "unknown":
        return found._replace(window=asked.window or 0)
    ids = [message for message, _ in asked.path.pairs]
    known = ids.index(found.known) if found.known in ids else None
    # The filter estimates messages only, so what goes beside them is no part of the comparison.
    counted = found.before - found.overhead
    found = found._replace(density=edit.density(request, asked.sizes, known, counted))
    if found.status == "pending":
        return found._replace(status_text=edit.SUMMARISING)
    made = found.checkpoint
    if made is None:
        return found
    text = edit.summarised(made.messages, found.before, found.after)
    if found.digest is None:  # the filter cannot compare the boundary, and asks again with more
        return found._replace(status_text=text)
    insert = edit.inserted(found.summary)
    return found._replace(edit=edit.propose(request, made.messages, insert), status_text=text)


async def stored(database: Database, asked: Lookup) -> Decision:
    """What is stored for the request.

    Raises:
        KeyMissing: this process cannot open it.
    """
    path, sizes = asked.path.pairs, asked.sizes
    found = await contexts.find(
        database, asked.tenant, asked.chat, path, sizes, asked.window, asked.served
    )
    if found is None:
        found = await _elsewhere(database, asked)
    if found is None:
        return Decision("unknown")
    return _decided(found, asked, await database.seals.of(asked.tenant))


def _decided(found: contexts.StoredContext, asked: Lookup, seal: Seal) -> Decision:
    before, window, overhead = found.tokens, asked.window or found.window, found.overhead
    unchanged = Decision("not_needed", found.known, window, overhead, before, before)
    apply_at = policy.apply_at(window, asked.served.apply_at)
    # A long answer needs its room even where the chat alone would not need a summary yet.
    if found.left_alone or before <= min(apply_at, asked.served.room or apply_at):
        return unchanged
    made = found.checkpoint
    # One that saves nothing would only take words away.
    if made is None or not fits(asked.path, made, seal) or made.tokens >= made.covered_tokens:
        return unchanged._replace(status="pending")
    boundary = _at_boundary(asked.path, made)
    return unchanged._replace(
        status="ready",
        after=before - made.covered_tokens + made.tokens,
        checkpoint=made,
        digest=boundary[1] if boundary else None,
        summary=found.summary,
    )


async def _elsewhere(database: Database, asked: Lookup) -> contexts.StoredContext | None:
    """What another chat has for the path of a fork that is not stored yet."""
    # A request that does not say who asks is served nothing of other chats (ADR 2).
    if not (asked.user or asked.anyone):
        return None
    lender = None if asked.anyone else asked.user
    path, sizes = asked.path.pairs, asked.sizes
    return await contexts.find_elsewhere(
        database, asked.tenant, asked.chat, lender, path, sizes, asked.window, asked.served
    )


def fits(path: Path, checkpoint: Checkpoint, seal: Seal) -> bool:
    """False when the path shows another message or digest where the checkpoint's coverage ends.

    Above the pairs that were sent, storage has already compared: the digest of the newest known
    message speaks for everything above it.
    """
    if checkpoint.messages > path.depth:
        return False
    shown = _at_boundary(path, checkpoint)
    if shown is None:
        return True
    message, digest = shown
    return (message, seal.keyed(digest)) == (checkpoint.until, checkpoint.digest)


def _at_boundary(path: Path, checkpoint: Checkpoint) -> tuple[str, str] | None:
    """The pair of the checkpoint's last covered message; None above the pairs that were sent."""
    place = path.depth - checkpoint.messages
    return path.pairs[place] if place < len(path.pairs) else None
