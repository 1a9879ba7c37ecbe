"""The one read of the request path: everything that an answer to `POST context` needs, in one statement.

Plain SQL on asyncpg: an ORM, a transaction around the read or a connection reset after it would each cost more than
the read itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from service.planning import Checkpoint

_CANDIDATES = 8  # the deepest ones; an older one would leave more in the request than all of these

# The path's pairs come leaf first. ORDER BY, because no join keeps their order by itself (a hash join did not).
_READ = f"""
with chat as (
    select id, window_tokens, overhead_tokens, due_at is not null as due
    from chats where chats.tenant_id = $1 and chats.external_id = $2
), known as (
    select pair.place, stored.message_id, stored.path_tokens, stored.checkpoint_id
    from unnest($3::text[], $4::text[]) with ordinality as pair (id, digest, place)
    join messages stored on stored.tenant_id = $1 and stored.chat_id = (select id from chat)
        and stored.message_id = pair.id and stored.digest = pair.digest
    order by pair.place
    limit 1
)
select chat.window_tokens, chat.overhead_tokens, chat.due,
       known.place, known.message_id as known, known.path_tokens,
       c.id, c.covered_until, c.covered_digest, c.covered_messages, c.covered_tokens, c.tokens, c.summary
from chat
left join known on true
left join checkpoints head on head.tenant_id = $1 and head.chat_id = chat.id and head.id = known.checkpoint_id
left join checkpoints c on c.tenant_id = $1 and c.chat_id = chat.id
    and (c.id = head.id or c.id = any(head.ancestors[cardinality(head.ancestors) - {_CANDIDATES - 2}:]))
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored for the path of a request.

    `place` is the index in the request's pairs of the newest stored message; the pairs before it are new to us.
    """

    window: int
    overhead: int
    due: bool
    known: str
    place: int
    path_tokens: int
    candidates: tuple[Checkpoint, ...]
    summaries: dict[int, str]


async def find(
    pool: "asyncpg.Pool[asyncpg.Record]", tenant: int, chat: str, pairs: Sequence[tuple[str, str]]
) -> Found | None:
    """The newest stored message of the path and the checkpoints above it; None when none of it is stored.

    Args:
        pool: the read pool.
        tenant: whose chat it is.
        chat: Open WebUI's chat id.
        pairs: (id, digest), leaf first.
    """
    ids, digests = zip(*pairs, strict=True)
    rows = await pool.fetch(_READ, tenant, chat, ids, digests)
    if not rows or rows[0]["known"] is None:
        return None
    first = rows[0]
    made = [row for row in rows if row["id"] is not None]
    return Found(
        window=first["window_tokens"],
        overhead=first["overhead_tokens"],
        due=first["due"],
        known=first["known"],
        place=first["place"] - 1,
        path_tokens=first["path_tokens"],
        candidates=tuple(
            Checkpoint(
                row["id"],
                row["covered_until"],
                row["covered_digest"],
                row["covered_messages"],
                row["covered_tokens"],
                row["tokens"],
            )
            for row in made
        ),
        summaries={row["id"]: row["summary"] for row in made},
    )
