"""The one read of the request path: all that an answer to `POST context` needs, in one statement.

Plain SQL on asyncpg: an ORM, a transaction around the read or a connection reset after it would
each cost more than the read itself (`python -m benchmarks.lookup`).
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import asyncpg

from service.planning.plan import Checkpoint
from service.planning.policy import APPLY_AT, APPLY_PARTS, parts_of
from service.storage import codec, statements
from service.storage.checkpoints import place_of
from service.storage.database import Database
from service.storage.sealing import Seal
from service.storage.statements import Numbered
from service.storage.tenancy import ChatKey

_SQL = statements.load("contexts")
CONTINUED = statements.numbered(_SQL["continued"])
BRANCHED = statements.numbered(_SQL["path"] + _SQL["branched"])
_ELSEWHERE = statements.numbered(_SQL["path"] + _SQL["elsewhere"])


class Lookup(NamedTuple):
    """A request that asks for a summary.

    Attributes:
        tenant: whose chat it is.
        chat: Open WebUI's chat id.
        depth: number of messages on the whole path.
        pairs: (id, digest) of its newest messages, leaf first, the digests as they were sent.
        sizes: estimated tokens of each pair's message, for those that are not stored yet.
        window: the model's window; None takes the one of the last ingest.
        user: who asks; None when nobody says so.
        anyone: a fork is served what any chat of the tenant lends, not only those of `user`.
        apply_at: the share of the window above which a request is served with a summary.
        beside: tokens that go beside the messages now, as the asker estimates them.
        running: of these the calls and results of the answer that is being written.
        room: tokens that the request may have at most, if its answer needs more of the window than
            answers usually do.
    """

    tenant: int
    chat: str
    depth: int
    pairs: Sequence[tuple[str, str]]
    sizes: Sequence[int]
    window: int | None = None
    user: str | None = None
    anyone: bool = False
    apply_at: float = APPLY_AT
    beside: int | None = None
    running: int = 0
    room: int | None = None


class StoredContext(NamedTuple):
    """What is stored for the path of a request.

    `tokens` is the estimated size of the request without a summary, of which `overhead` is what the
    provider counts beside the messages. `checkpoint` is the one to serve if that is over
    `apply_at`; None when there is none. `known` is None when it is another chat's. `left_alone`:
    its user wants no summaries of it. `sealed` is the summary as it is stored for `chat`.
    """

    chat: ChatKey
    window: int
    overhead: int
    known: str | None
    tokens: int
    checkpoint: Checkpoint | None
    sealed: bytes
    left_alone: bool


async def find(database: Database, lookup: Lookup) -> StoredContext | None:
    """The newest stored message of the path and the checkpoint to serve.

    None when none of the path is stored.
    """
    seal = await database.seals.of(lookup.tenant)
    digests = [seal.keyed(digest) for _, digest in lookup.pairs[:2]]
    goes_on = {"leaf": digests[0], "above": digests[-1], "question": lookup.sizes[0]}
    row = await _read(database, CONTINUED, lookup, goes_on)
    if row is None:
        row = await _read(database, BRANCHED, lookup, _path(lookup, seal))
    return _context(row, lookup.tenant) if row else None


async def find_elsewhere(database: Database, lookup: Lookup) -> StoredContext | None:
    """The same of another chat that has a checkpoint on the path: the user's, or anyone's.

    The checkpoint's boundary has to be among the pairs.
    """
    seal = await database.seals.of(lookup.tenant)
    lender = {"lender": None if lookup.anyone else lookup.user}
    row = await _read(database, _ELSEWHERE, lookup, _path(lookup, seal) | lender)
    if row is None:
        return None
    # What another chat has stored is not stored for this one, so all of it is still to be ingested.
    # Whether the other one is left alone, is a wish about that one.
    return _context(row, lookup.tenant)._replace(known=None, left_alone=False)


def summary(stored: StoredContext, seal: Seal) -> str:
    """The words of its summary; nobody needs those of one that is not served.

    Raises:
        KeyMissing: they are sealed with a key that is not ours.
    """
    assert stored.checkpoint
    place = place_of(stored.chat, stored.checkpoint.id, "summary")
    return codec.unpack_text(seal.open(place, stored.sealed))


def _path(lookup: Lookup, seal: Seal) -> dict[str, Any]:
    return {
        "ids": [identity for identity, _ in lookup.pairs],
        "digests": [seal.keyed(digest) for _, digest in lookup.pairs],
        # By place: what those before it cost.
        "new": list(accumulate(lookup.sizes[:-1], initial=0)),
    }


async def _read(
    database: Database, statement: Numbered, lookup: Lookup, more: Mapping[str, Any]
) -> "asyncpg.Record | None":
    values = {
        "tenant": lookup.tenant,
        "chat": lookup.chat,
        "window": lookup.window,
        "apply_parts": parts_of(lookup.apply_at),
        "all_parts": APPLY_PARTS,
        "room": lookup.room,
        "beside": lookup.beside,
        **more,
    }
    return await database.hot.fetchrow(statement.sql, *statement.given(values))


def _context(row: "asyncpg.Record", tenant: int) -> StoredContext:
    checkpoint = None
    if row["checkpoint"] is not None:
        checkpoint = Checkpoint(
            id=row["checkpoint"],
            until=row["covered_until"],
            digest=row["covered_digest"],
            messages=row["covered_messages"],
            covered_tokens=row["covered_tokens"],
            tokens=row["summary_tokens"],
        )
    return StoredContext(
        chat=ChatKey(tenant, row["chat"]),
        window=row["window"],
        overhead=row["overhead"],
        known=row["known"],
        tokens=row["tokens"],
        checkpoint=checkpoint,
        sealed=row["summary"],
        left_alone=row["left_alone"],
    )
