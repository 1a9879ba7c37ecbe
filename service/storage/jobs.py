"""Work as operators see it: what is due, worked on, put off or dead, and why.

Nothing is changed here; that is in `work`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import ColumnElement, case, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import chats, tenants

State = Literal["working", "due", "waiting", "dead"]
"""What a chat's work is in.

`due`: nobody works on it yet. `waiting`: put off after a failure, or debounced. `dead`: given up
until a retry.
"""

STATES: tuple[State, ...] = get_args(State)


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
    """Jobs in these states with an id above `after`, in that order; of all tenants for None."""
    query = (
        select(*_COLUMNS)
        .join(tenants)
        .where(_of(tenant), _ANY, chats.c.id > after, _STATE.in_(set(states)))
    )
    return [Job(*row) for row in await connection.execute(query.order_by(chats.c.id).limit(limit))]


async def counts(connection: AsyncConnection, tenant: int | None) -> QueueCounts:
    """The queue in numbers; of all tenants for None."""
    waited = func.extract("epoch", func.now() - func.min(chats.c.due_at))
    query = select(_STATE, func.count(), waited).where(_of(tenant), _ANY).group_by(_STATE)
    rows = (await connection.execute(query)).all()
    count = {state: number for state, number, _ in rows}
    seconds = {state: longest for state, _, longest in rows}
    return QueueCounts(
        working=count.get("working", 0),
        due=count.get("due", 0),
        waiting=count.get("waiting", 0),
        dead=count.get("dead", 0),
        oldest_due_seconds=round(float(seconds.get("due", 0)), 3),
    )


def _of(tenant: int | None) -> ColumnElement[bool]:
    return true() if tenant is None else chats.c.tenant_id == tenant
