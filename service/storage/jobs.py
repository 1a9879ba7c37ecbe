"""Work as operators see it: what is due, worked on, put off or dead, why, and the breakers.

Nothing is changed here; that is in `work` and `breakers`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from service.names import State
from service.storage import statements
from service.storage.database import Reads

BreakerState = Literal["closed", "open", "half-open"]

BREAKER_STATE: Final = """
case when endpoints.open_until > now() then 'open'
     when endpoints.open_until is not null then 'half-open'
     else 'closed' end
"""


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one chat.

    `id` is the internal one, for paging; `worker` is set while it is worked on.
    """

    id: int
    tenant: str
    chat_id: str
    model: str
    state: State
    attempts: int
    last_error: str | None
    due_at: datetime | None
    dead_at: datetime | None
    worker: str | None
    lease_until: datetime | None


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many chats are in each state, and how long the oldest due one has waited, in seconds."""

    working: int
    due: int
    waiting: int
    dead: int
    oldest_due_seconds: float


@dataclass(frozen=True, slots=True)
class ChatCounts:
    """How many chats there are, have a summary, and have a degraded one; each at most `most`."""

    chats: int
    compressed: int
    degraded: int
    most: int


@dataclass(frozen=True, slots=True)
class Breaker:
    """How a summariser endpoint stands. `failures` counts consecutive ones."""

    name: str
    state: BreakerState
    failures: int
    open_until: datetime | None
    last_error: str | None


_MOST_COUNTED = 10_000
_SQL = statements.load("jobs")
_PAGE = statements.numbered(_SQL["page"])
_COUNTS = statements.numbered(_SQL["counts"])
_STORED = statements.numbered(_SQL["stored"])
CHAT_STATE: Final = """
case when chats.lease_until > now() then 'working'
     when chats.dead_at is not null then 'dead'
     when chats.due_at <= now() then 'due'
     when chats.due_at is not null then 'waiting'
     else 'idle' end
"""
"""SQL: the `ChatState` of a row of `chats`."""


async def page(
    reads: Reads, tenant: int, states: Sequence[State], *, after: int = 0, limit: int
) -> list[Job]:
    """A tenant's jobs in these states with an id above `after`, in that order."""
    values = {"tenant": tenant, "states": list(states), "after": after, "limit": limit}
    return [Job(**row) for row in await reads.fetch(_PAGE.sql, *_PAGE.given(values))]


async def counts(reads: Reads, tenant: int | None) -> QueueCounts:
    """The queue in numbers; of all tenants for None."""
    rows = await reads.fetch(_COUNTS.sql, *_COUNTS.given({"tenant": tenant}))
    count = {row["state"]: row["chats"] for row in rows}
    seconds = {row["state"]: row["seconds"] for row in rows}
    return QueueCounts(
        working=count.get("working", 0),
        due=count.get("due", 0),
        waiting=count.get("waiting", 0),
        dead=count.get("dead", 0),
        oldest_due_seconds=round(float(seconds.get("due", 0)), 3),
    )


async def stored(reads: Reads, tenant: int) -> ChatCounts:
    """Counts chats up to a bound, so that it takes no longer the more there are."""
    values = _STORED.given({"tenant": tenant, "most": _MOST_COUNTED})
    (row,) = await reads.fetch(_STORED.sql, *values)
    return ChatCounts(**row)


async def breakers(reads: Reads) -> list[Breaker]:
    """All endpoints that the fleet has asked, by name."""
    rows = await reads.fetch(
        f"select name, {BREAKER_STATE} as state, failures, open_until, last_error"
        " from endpoints order by name"
    )
    return [Breaker(**row) for row in rows]


async def encryption_keys(reads: Reads) -> list[int]:
    """The ids of the keys that stored texts may be sealed with."""
    rows = await reads.fetch("select id from sealing_keys order by id")
    return [row["id"] for row in rows]
