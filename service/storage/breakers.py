"""The circuit breaker of each summariser endpoint: one row, shared by the fleet.

All times are the database's.

Closed: it may be asked. Open, after consecutive failures: nobody asks until `open_until`.
Half-open, once that has passed: one chat probes; its success closes the breaker, its failure opens
it for twice as long.
"""

from typing import NamedTuple

from sqlalchemy import ColumnElement, case, func, literal_column, null, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.jobs import BREAKER_STATE, BreakerState
from service.storage.tables import endpoints
from service.storage.terms import after_seconds

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
    """What a breaker is for: a summariser of the fleet (0), or a model of a tenant's host."""

    name: str
    tenant: int = 0


_OPEN = endpoints.c.open_until > func.now()
_STATE: ColumnElement[BreakerState] = literal_column(BREAKER_STATE)


async def read_state(connection: AsyncConnection, endpoint: Endpoint) -> BreakerState:
    """The breaker's state; an endpoint that is new is noted."""
    query = select(_STATE).where(*_is_endpoint(endpoint))
    breaker: BreakerState | None = (await connection.execute(query)).scalar_one_or_none()
    if breaker is None:
        new = insert(endpoints).values(name=endpoint.name, tenant_id=endpoint.tenant)
        await connection.execute(new.on_conflict_do_nothing())
    return breaker or "closed"


async def find_pause(connection: AsyncConnection, endpoint: Endpoint) -> float:
    """Seconds for which an open breaker stays open."""
    left = func.extract("epoch", endpoints.c.open_until - func.now())
    query = select(left).where(*_is_endpoint(endpoint))
    return max(float((await connection.execute(query)).scalar_one() or 0), 0)


async def note_success(connection: AsyncConnection, endpoint: Endpoint) -> None:
    """Closes the breaker; writes nothing when it has nothing to forget."""
    query = update(endpoints).where(*_is_endpoint(endpoint), endpoints.c.failures > 0)
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
    await connection.execute(
        update(endpoints)
        .where(*_is_endpoint(endpoint))
        .values(
            failures=case((_OPEN, endpoints.c.failures), else_=failures),
            open_until=case((_OPEN, endpoints.c.open_until), else_=still_closed),
            last_error=error,
            changed_at=func.now(),
        )
    )


def _is_endpoint(endpoint: Endpoint) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return endpoints.c.tenant_id == endpoint.tenant, endpoints.c.name == endpoint.name
