"""Work as operators see it: what is due, worked on, put off or dead, and why. Only looks; `work` changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import ColumnElement, case, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import chats, tenants

State = Literal["working", "due", "waiting", "dead"]
"""`due`: nobody works on it yet; `waiting`: put off after a failure, or debounced; `dead`: given up until a retry."""

STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one chat. `id` is the internal one, for paging; `worker` is set while it is worked on."""

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
class Figures:
    """How many chats are in each state, and how long the oldest due one has waited, in seconds."""

    working: int
    due: int
    waiting: int
    dead: int
    oldest_due_seconds: float


_WORKING = chats.c.lease_until > func.now()
_STATE = case(
    (_WORKING, "working"),
    (chats.c.dead_at.is_not(None), "dead"),
    (chats.c.due_at <= func.now(), "due"),
    else_="waiting",
)
_ANY = or_(chats.c.due_at.is_not(None), chats.c.dead_at.is_not(None))  # as the partial index has it
_COLUMNS = (
    chats.c.id,
    tenants.c.name,
    chats.c.external_id,
    chats.c.model,
    _STATE,
    chats.c.attempts,
    chats.c.last_error,
    chats.c.due_at,
    chats.c.dead_at,
    case((_WORKING, chats.c.leased_by)),
    case((_WORKING, chats.c.lease_until)),
)


async def page(
    connection: AsyncConnection,
    tenant: int | None,
    states: Sequence[State] = STATES,
    *,
    after: int = 0,
    limit: int = 50,
) -> list[Job]:
    """Jobs in these states in the order of their ids, those with an id above `after`; of all tenants for None."""
    query = (
        select(*_COLUMNS)
        .join(tenants)
        .where(_of(tenant), _ANY, chats.c.id > after, _STATE.in_(set(states)))
    )
    return [Job(*row) for row in await connection.execute(query.order_by(chats.c.id).limit(limit))]


async def figures(connection: AsyncConnection, tenant: int | None) -> Figures:
    """The queue in numbers; of all tenants for None."""
    waited = func.extract("epoch", func.now() - func.min(chats.c.due_at))
    query = select(_STATE, func.count(), waited).where(_of(tenant), _ANY).group_by(_STATE)
    found = {state: (count, seconds) for state, count, seconds in await connection.execute(query)}
    working, due, waiting, dead = (found.get(state, (0, 0))[0] for state in STATES)
    return Figures(working, due, waiting, dead, round(float(found.get("due", (0, 0))[1]), 3))


def _of(tenant: int | None) -> ColumnElement[bool]:
    return true() if tenant is None else chats.c.tenant_id == tenant
