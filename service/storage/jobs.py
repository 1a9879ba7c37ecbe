"""Work as operators see it: what is due, worked on, put off or dead, why, and the breakers.

Nothing is changed here; that is in `work` and `breakers`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from service.names import STATES, State
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
class Stored:
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
_WORKING = "coalesce(chats.lease_until > now(), false)"
_STATE = f"""
case when {_WORKING} then 'working'
     when chats.dead_at is not null then 'dead'
     when chats.due_at <= now() then 'due'
     else 'waiting' end
"""
_ANY = "(chats.due_at is not null or chats.dead_at is not null)"  # as the partial index has it
CHAT_STATE: Final = f"(case when {_ANY} or {_WORKING} then {_STATE} else 'idle' end)"
"""SQL: the `ChatState` of a row of `chats`."""
_JOB = f"""
chats.id, tenants.name, chats.external_id, chats.model, {_STATE}, chats.attempts, chats.last_error,
chats.due_at, chats.dead_at, case when {_WORKING} then chats.leased_by end,
case when {_WORKING} then chats.lease_until end
"""


async def page(
    reads: Reads,
    tenant: int,
    states: Sequence[State] = STATES,
    *,
    after: int = 0,
    limit: int = 50,
) -> list[Job]:
    """A tenant's jobs in these states with an id above `after`, in that order."""
    query = f"""
        select {_JOB} from chats join tenants on tenants.id = chats.tenant_id
        where chats.tenant_id = $4 and {_ANY} and {_STATE} = any($1::text[]) and chats.id > $2
        order by chats.id limit $3
    """
    return [Job(*row) for row in await reads.fetch(query, list(states), after, limit, tenant)]


async def counts(reads: Reads, tenant: int | None) -> QueueCounts:
    """The queue in numbers; of all tenants for None."""
    of_tenant, parameters = ("true", ()) if tenant is None else ("chats.tenant_id = $1", (tenant,))
    query = f"""
        select {_STATE}, count(*), extract(epoch from now() - min(chats.due_at))
        from chats where {of_tenant} and {_ANY} group by 1
    """
    rows = await reads.fetch(query, *parameters)
    count = {state: number for state, number, _ in rows}
    seconds = {state: longest for state, _, longest in rows}
    return QueueCounts(
        working=count.get("working", 0),
        due=count.get("due", 0),
        waiting=count.get("waiting", 0),
        dead=count.get("dead", 0),
        oldest_due_seconds=round(float(seconds.get("due", 0)), 3),
    )


async def stored(reads: Reads, tenant: int) -> Stored:
    """Counts chats up to a bound, so that it takes no longer the more there are."""
    query = """
        select
            (select count(*) from (select from chats where chats.tenant_id = $2 limit $1) as found),
            (select count(*) from (
                select from chats where chats.tenant_id = $2 and cardinality(leaf_line) > 0 limit $1
            ) as found),
            (select count(*) from (
                select distinct checkpoints.chat_id
                from checkpoints join chats
                    on chats.tenant_id = checkpoints.tenant_id and chats.id = checkpoints.chat_id
                where chats.tenant_id = $2 and checkpoints.tenant_id = $2
                    and checkpoints.kind = 'degraded' and checkpoints.retired_at is null
                limit $1
            ) as found)
    """
    (row,) = await reads.fetch(query, _MOST_COUNTED, tenant)
    chats, compressed, degraded = row
    return Stored(chats, compressed, degraded, _MOST_COUNTED)


async def breakers(reads: Reads) -> list[Breaker]:
    """All endpoints that the fleet has asked, by name."""
    rows = await reads.fetch(
        f"select name, {BREAKER_STATE}, failures, open_until, last_error"
        " from endpoints order by name"
    )
    return [Breaker(*row) for row in rows]


async def encryption_keys(reads: Reads) -> list[int]:
    """The ids of the keys that stored texts may be sealed with."""
    rows = await reads.fetch("select id from sealing_keys order by id")
    return [row["id"] for row in rows]
