"""The one read of the request path: all that an answer to `POST context` needs, in one statement.

Plain SQL on asyncpg: an ORM, a transaction around the read or a connection reset after it would
each cost more than the read itself. A chat that goes on takes two index probes, however long its
path (`python -m benchmarks.lookup`).
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import asyncpg

from service.planning.plan import Checkpoint
from service.planning.policy import APPLY_AT, APPLY_PARTS, parts_of
from service.storage.chats import LINE, MORE_TOOLS, SAVINGS
from service.storage.checkpoints import place_of
from service.storage.database import Database
from service.storage.sealing import Seal
from service.storage.tenancy import ChatKey

_CHARACTERS = 4  # per token, of a message that was not ingested yet

# What goes beside the messages: as it is known of the chat, or the tools that the filter has seen,
# when those are clearly more: the chat has no count yet, or tools were added.
_OVERHEAD = (
    f"case when $8::integer > chat.overhead_tokens * {MORE_TOOLS}"
    " then $8 else chat.overhead_tokens end"
)
# A text that is sealed is empty where it stands plain.
_ANSWER = f"""
select chat.id as chat, chat.window_tokens, {_OVERHEAD}, known.id, known.tokens,
       made.id, made.covered_until, made.covered_digest, made.covered_messages,
       made.covered_tokens, made.tokens, made.summary, made.sealed_summary,
       chat.left_alone_at is not null
"""
# The shallowest checkpoint that brings the request under apply_at and into its room, because the
# injected prefix then changes least often; when none does, the deepest. Savings never fall, so
# `width_bucket` finds it by bisection.
_CHOSEN = f"""
left join checkpoints made
    on made.tenant_id = $1 and made.chat_id = chat.id and made.id = coalesce(
        known.line[1 + width_bucket(
            known.tokens - 1
                - least(coalesce($6, chat.window_tokens) * $7::bigint / {APPLY_PARTS}, $9::bigint),
            known.savings)],
        known.line[cardinality(known.line)])
"""
_LIVES = "coalesce(chat.expires_at > now(), true)"
# The path that was ingested last, and goes on from its leaf or from the message above a new
# question. Digests alone are compared, since a digest is made of the id.
_CONTINUED = f"""
{_ANSWER}
from chats chat
cross join lateral (select chat.leaf_id, chat.leaf_line, chat.leaf_savings,
    chat.leaf_tokens + {_OVERHEAD}
        + case when chat.leaf_digest = $3 then 0 else $5::bigint end
) known (id, line, savings, tokens)
{_CHOSEN}
where chat.tenant_id = $1 and chat.external_id = $2
    and chat.leaf_digest in ($3, $4) and {_LIVES}
"""
# Any path. ORDER BY, because no join keeps the order of the pairs by itself (a hash join did not).
_BY_PAIRS = f"""
{_ANSWER}
from chats chat
cross join lateral (
    select newest.message_id,
        newest.path_tokens + {_OVERHEAD} + ($5::bigint[])[newest.place], newest.place,
        {LINE.format("head")}, {SAVINGS.format("head")}
    from (
        select stored.message_id, stored.path_tokens, stored.checkpoint_id, pair.place
        from unnest($3::text[], $4::text[]) with ordinality as pair (id, digest, place)
        join messages stored on stored.tenant_id = $1 and stored.chat_id = chat.id
            and stored.message_id = pair.id and stored.digest = pair.digest
        order by pair.place limit 1
    ) newest
    left join checkpoints head
        on head.tenant_id = $1 and head.chat_id = chat.id and head.id = newest.checkpoint_id
) known (id, tokens, place, line, savings)
{_CHOSEN}
where chat.tenant_id = $1 and
"""
_BRANCHED = f"{_BY_PAIRS} chat.external_id = $2 and {_LIVES}"
# In another chat, for a fork, a clone or an import: these keep the ids of their messages, and so
# the digests. Of several chats, the one that knows the newest message. A chat that expires lends
# nothing: it is deleted with everything stored for it. One that is left alone borrows nothing.
_ELSEWHERE = f"""
{_BY_PAIRS} ($2::text is null or chat.user_id = $2)
and chat.expires_at is null and chat.id in (
    select lent.chat_id from checkpoints lent
    where lent.tenant_id = $1 and lent.covered_digest = any($4::text[])
) and not exists (
    select 1 from chats asking where asking.tenant_id = $1 and asking.external_id = $10
        and asking.left_alone_at is not null
)
order by known.place, chat.id desc limit 1
"""


class Served(NamedTuple):
    """How a model is served.

    `apply_at` is the share of its window above which it is; `overhead` is tokens of the tools that
    go to it, as the filter has seen them in any chat. `room` is tokens that a request may have at
    most, if its answer needs more of the window than answers usually do.
    """

    apply_at: float = APPLY_AT
    overhead: int = 0
    room: int | None = None


_USUAL = Served()


class StoredContext(NamedTuple):
    """What is stored for the path of a request.

    `tokens` is the estimated size of the request without a summary, of which `overhead` is what the
    provider counts beside the messages. `checkpoint` is the one to serve if that is over
    `apply_at`; None when there is none. `known` is None when it is another chat's. `left_alone`:
    its user wants no summaries of it.
    """

    window: int
    overhead: int
    known: str | None
    tokens: int
    checkpoint: Checkpoint | None
    summary: str
    left_alone: bool


async def find(
    database: Database,
    tenant: int,
    chat: str,
    pairs: Sequence[tuple[str, str]],
    sizes: Sequence[int],
    window: int | None = None,
    served: Served = _USUAL,
) -> StoredContext | None:
    """The newest stored message of the path and the checkpoint to serve.

    None when none of the path is stored.

    Args:
        database: what it is read from.
        tenant: whose chat it is.
        chat: Open WebUI's chat id.
        pairs: (id, digest), leaf first, the digests as they were sent.
        sizes: characters of each pair's message: those that are not stored yet count by them.
        window: the model's window; None takes the one of the last ingest.
        served: how the model is served.
    """
    seal = await database.seals.of(tenant)
    leaf = seal.keyed(pairs[0][1])
    above = seal.keyed(pairs[1][1]) if len(pairs) > 1 else leaf
    question = sizes[0] // _CHARACTERS
    asked = tenant, chat, leaf, above, question, window, *_how(served)
    row = await database.reads.fetchrow(_CONTINUED, *asked)
    if row is not None:
        return _found(row, ChatKey(tenant, row["chat"]), seal)
    return await _branched(database, _BRANCHED, tenant, chat, pairs, sizes, window, served)


async def find_elsewhere(
    database: Database,
    tenant: int,
    chat: str,
    user: str | None,
    pairs: Sequence[tuple[str, str]],
    sizes: Sequence[int],
    window: int | None = None,
    served: Served = _USUAL,
) -> StoredContext | None:
    """The same of another chat than `chat` that has a checkpoint on the path.

    It is one of `user`, or of anyone in the tenant for None. The checkpoint's boundary has to be
    among `pairs`. The other arguments are those of `find`.
    """
    found = await _branched(database, _ELSEWHERE, tenant, user, pairs, sizes, window, served, chat)
    # What another chat has stored is not stored for this one, so all of it is still to be ingested.
    # Whether the other one is left alone, is a wish about that one.
    return found._replace(known=None, left_alone=False) if found else None


async def _branched(
    database: Database,
    statement: str,
    tenant: int,
    whose: str | None,
    pairs: Sequence[tuple[str, str]],
    sizes: Sequence[int],
    window: int | None,
    served: Served,
    *more: str,
) -> StoredContext | None:
    # By place: what those before it cost.
    new = [size // _CHARACTERS for size in accumulate(sizes[:-1], initial=0)]
    seal = await database.seals.of(tenant)
    ids = [identity for identity, _ in pairs]
    digests = [seal.keyed(digest) for _, digest in pairs]
    asked = tenant, whose, ids, digests, new, window, *_how(served), *more
    row = await database.reads.fetchrow(statement, *asked)
    return _found(row, ChatKey(tenant, row["chat"]), seal) if row else None


def _how(served: Served) -> tuple[int, int, int | None]:
    """The last parameters of all statements, $7 to $9."""
    return parts_of(served.apply_at), served.overhead, served.room


def _found(row: "asyncpg.Record", chat: ChatKey, seal: Seal) -> StoredContext:
    _, window, overhead, known, tokens, *made, text, sealed, alone = row.values()
    if text is None:
        return StoredContext(window, overhead, known, tokens, None, "", alone)
    identity, until, digest, *sizes = made
    checkpoint = Checkpoint(identity, until, digest, *sizes)
    text = seal.open_text(place_of(chat, identity, "sealed_summary"), sealed, text)
    return StoredContext(window, overhead, known, tokens, checkpoint, text, alone)
