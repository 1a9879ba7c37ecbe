"""The one read of the request path: everything that an answer to `POST context` needs, in one statement.

Plain SQL on asyncpg: an ORM, a transaction around the read or a connection reset after it would each cost more than
the read itself. Five index probes and no array of the request: 1.2 to 1.4 times a one-row read through the same pool,
however long the path (`python -m benchmarks.lookup`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from service.planning import APPLY_AT, DEFAULT_WINDOW, Checkpoint

# The newest stored message is nearly always the leaf (a regenerated answer) or the one above it (a new question).
# Which checkpoint: the shallowest that brings the request under apply_at, because the injected prefix then changes
# least often; when none does, the deepest. `savings` never falls, so `width_bucket` finds it by bisection.
_READ = f"""
select chat.window_tokens, chat.overhead_tokens,
       case when leaf.message_id is null then above.message_id else leaf.message_id end as known,
       case when leaf.message_id is null then above.path_tokens + $7 else leaf.path_tokens end as path_tokens,
       c.id, c.covered_until, c.covered_digest, c.covered_messages, c.covered_tokens, c.tokens, c.summary
from chats chat
left join messages leaf on leaf.tenant_id = $1 and leaf.chat_id = chat.id and leaf.message_id = $3 and leaf.digest = $4
left join messages above
    on above.tenant_id = $1 and above.chat_id = chat.id and above.message_id = $5 and above.digest = $6
left join checkpoints head on head.tenant_id = $1 and head.chat_id = chat.id
    and head.id = case when leaf.message_id is null then above.checkpoint_id else leaf.checkpoint_id end
left join checkpoints c on c.tenant_id = $1 and c.chat_id = chat.id
    and c.id = (head.ancestors || head.id)[1 + least(cardinality(head.ancestors), width_bucket(
        case when leaf.message_id is null then above.path_tokens + $7 else leaf.path_tokens end + chat.overhead_tokens
            - coalesce($8, chat.window_tokens) * {APPLY_AT}::bigint / {DEFAULT_WINDOW} - 1,
        head.savings))]
where chat.tenant_id = $1 and chat.external_id = $2
"""

# ORDER BY, because no join keeps the order of the pairs by itself (a hash join did not).
_NEWEST = """
select pair.place
from chats chat
cross join unnest($3::text[], $4::text[]) with ordinality as pair (id, digest, place)
join messages stored on stored.tenant_id = $1 and stored.chat_id = chat.id
    and stored.message_id = pair.id and stored.digest = pair.digest
where chat.tenant_id = $1 and chat.external_id = $2
order by pair.place
limit 1
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored for the path of a request.

    `tokens` is the estimated size of the request without a summary. `checkpoint` is the one to serve if that is over
    `apply_at`; None when there is none.
    """

    window: int
    known: str
    tokens: int
    checkpoint: Checkpoint | None
    summary: str


async def find(
    pool: "asyncpg.Pool[asyncpg.Record]",
    tenant: int,
    chat: str,
    pairs: Sequence[tuple[str, str]],
    unseen: Sequence[int],
    window: int | None = None,
) -> Found | None:
    """The newest stored message of the path and the checkpoint to serve; None when none of the path is stored.

    Args:
        pool: the read pool.
        tenant: whose chat it is.
        chat: Open WebUI's chat id.
        pairs: (id, digest), leaf first.
        unseen: estimated tokens of each pair's message, as far as they are known: counted for those not stored yet.
        window: the model's window; None takes the one of the last hand-over.
    """
    leaf, above = pairs[0], pairs[min(1, len(pairs) - 1)]
    row = await pool.fetchrow(_READ, tenant, chat, *leaf, *above, sum(unseen[:1]), window)
    if row is not None and row["known"] is None and len(pairs) > 2:
        ids, digests = zip(*pairs, strict=True)
        place = await pool.fetchval(_NEWEST, tenant, chat, ids, digests)
        if place is not None:
            new = sum(unseen[: place - 1])
            # The same statement, with the newest known pair where the one above the leaf stands.
            row = await pool.fetchrow(_READ, tenant, chat, *leaf, *pairs[place - 1], new, window)
    if row is None or row["known"] is None:
        return None
    window, overhead, known, path_tokens, *made, summary = row.values()
    return Found(window, known, path_tokens + overhead, Checkpoint(*made) if made[0] else None, summary or "")
