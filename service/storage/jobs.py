"""The queue as operators see it, and the circuit breakers of summarisers.

A job is a chat with work: due, working, waiting or dead, and why. `work` changes it. A breaker
belongs to an endpoint; each worker notes its successes and failures there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

from sqlalchemy import ColumnElement, and_, case, func, literal_column, null, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.names import State
from service.storage import database
from service.storage.database import Reads
from service.storage.tables import after_seconds, endpoints

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
    """The number of chats in each state, and the seconds that the oldest due one has waited.

    `stalled` says that this is two minutes and nobody works.
    """

    working: int
    due: int
    waiting: int
    dead: int
    oldest_due_seconds: float
    stalled: bool


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of a summariser endpoint. `failures` counts consecutive ones."""

    name: str
    state: BreakerState
    failures: int
    open_until: datetime | None
    last_error: str | None


LONG: Final = 120
"""Seconds that due work may wait before somebody should look: as in the alert rules."""

CHAT_STATE: Final = """
case when greatest(chats.lease_until, chats.code_until) > now() then 'working'
     when chats.dead_at is not null then 'dead'
     when least(chats.due_at, chats.code_at) <= now() then 'due'
     when chats.due_at is not null then 'waiting'
     else 'idle' end
"""
"""SQL: the `ChatState` of a row of `chats`."""
_SQL = database.load_statements("jobs")
_PAGE = database.number_parameters(_SQL["page"].format(state=CHAT_STATE))
_COUNTS = database.number_parameters(_SQL["counts"].format(state=CHAT_STATE))


async def list_jobs(
    reads: Reads, tenant: int, states: Sequence[State], *, after: int = 0, limit: int
) -> list[Job]:
    """A tenant's jobs in these states with an id above `after`, in that order."""
    values = {"tenant": tenant, "states": list(states), "after": after, "limit": limit}
    return [Job(**row) for row in await reads.fetch(_PAGE.sql, *_PAGE.given(values))]


async def count_jobs(reads: Reads, tenant: int | None) -> QueueCounts:
    """The queue in numbers; of all tenants for None."""
    rows = await reads.fetch(_COUNTS.sql, *_COUNTS.given({"tenant": tenant}))
    count = {row["state"]: row["chats"] for row in rows}
    seconds = {row["state"]: float(row["seconds"] or 0) for row in rows}
    oldest = seconds.get("due", 0)
    working = count.get("working", 0)
    return QueueCounts(
        working=working,
        due=count.get("due", 0),
        waiting=count.get("waiting", 0),
        dead=count.get("dead", 0),
        oldest_due_seconds=round(oldest, 3),
        stalled=oldest > LONG and not working,
    )


async def list_breakers(reads: Reads, tenant: int) -> list[Breaker]:
    """The fleet's endpoints, and the models of a tenant's host that were asked, by name."""
    rows = await reads.fetch(
        f"select name, {BREAKER_STATE} as state, failures, open_until, last_error"
        " from endpoints where endpoints.tenant_id = 0 or endpoints.tenant_id = $1 order by name",
        tenant,
    )
    return [Breaker(**row) for row in rows]


OPENED_BY = 5
"""Consecutive failed calls that open a breaker.

More than the four calls that may be under way when the summariser restarts.
"""
PAUSE = 15.0
"""Seconds that an open breaker waits before one chat probes the summariser.

Short, because chats wait for it; each failed probe doubles it.
"""
_LONGEST_PAUSE = 300  # seconds


class Endpoint(NamedTuple):
    """The endpoint of a breaker: a summariser of the fleet (0), or a model of a tenant's host."""

    name: str
    tenant: int = 0


_OPEN = endpoints.c.open_until > func.now()
_STATE: ColumnElement[BreakerState] = literal_column(BREAKER_STATE)


async def read_state(connection: AsyncConnection, endpoint: Endpoint) -> BreakerState:
    """The breaker's state; an endpoint that is new is noted."""
    query = select(_STATE).where(_is_endpoint(endpoint))
    breaker = await connection.scalar(query)
    if breaker is None:
        new = insert(endpoints).values(name=endpoint.name, tenant_id=endpoint.tenant)
        await connection.execute(new.on_conflict_do_nothing())
    return breaker or "closed"


async def find_pause(connection: AsyncConnection, endpoint: Endpoint) -> float:
    """Seconds for which an open breaker stays open."""
    left = func.extract("epoch", endpoints.c.open_until - func.now())
    query = select(left).where(_is_endpoint(endpoint))
    seconds = (await connection.scalars(query)).one()
    return max(float(seconds or 0), 0)


async def note_success(connection: AsyncConnection, endpoint: Endpoint) -> None:
    """Closes the breaker; writes nothing when it has nothing to forget."""
    query = update(endpoints).where(_is_endpoint(endpoint), endpoints.c.failures > 0)
    await connection.execute(query.values(failures=0, open_until=None, last_error=None))


async def note_failure(connection: AsyncConnection, endpoint: Endpoint, error: str) -> None:
    """Counts a failed call; the `OPENED_BY`-th consecutive one opens the breaker.

    It stays open for `PAUSE` seconds, and twice as long after each further failure.
    Calls that were under way when it opened fail too; they do not open it further.
    """
    failures = endpoints.c.failures + 1
    probes = func.least(failures - OPENED_BY, 20)  # twenty doublings are far above the longest
    longer = func.least(_LONGEST_PAUSE, PAUSE * func.power(2, probes))
    still_closed = case((failures >= OPENED_BY, after_seconds(longer)), else_=null())
    values = {
        "failures": case((_OPEN, endpoints.c.failures), else_=failures),
        "open_until": case((_OPEN, endpoints.c.open_until), else_=still_closed),
        "last_error": error,
        "changed_at": func.now(),
    }
    await connection.execute(update(endpoints).where(_is_endpoint(endpoint)).values(values))


def _is_endpoint(endpoint: Endpoint) -> ColumnElement[bool]:
    return and_(endpoints.c.tenant_id == endpoint.tenant, endpoints.c.name == endpoint.name)
