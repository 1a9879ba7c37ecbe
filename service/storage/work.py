"""Due work: the columns of `chats` that say what is to be done, and who is doing it.

The row is the truth. Redis only wakes workers: flush it, and a sweep finds the work again. Workers
do not choose: `claim` gives each the chat whose turn it is. All times are the database's, so
workers' clocks do not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from sqlalchemy import (
    ColumnElement,
    Row,
    Text,
    and_,
    case,
    func,
    literal,
    null,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import breakers, statements
from service.storage.tables import chats, tenants
from service.storage.tenancy import ChatKey, of
from service.storage.terms import in_seconds, not_among

DEBOUNCE = 0.5
"""Seconds between storing new messages and the work on them.

The updates of one turn come within that time, and become one piece of work.
"""
LEASE = 20.0
"""Seconds after which the work of a worker that stopped answering is given to another.

It is renewed every third of it, so a machine may stand still for 13 s without losing it.
"""
FALLBACK_AFTER = 5
"""Failed attempts on a chat after which the built-in summariser writes its summary.

With the pauses between them, that is half a minute.
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a chat until it expires; `token` fences whatever is written with it.

    `fallback` says that the built-in summariser writes, because the LLM has failed on this chat too
    often. `at_once` says that the LLM is away or has enough to do, but the chat's next request is
    too large: code makes an interim summary, and the chat waits on. `leaf` is the newest one,
    `other_leaves` those of other branches that are due, newest first. `chat_id` and `user_id` are
    Open WebUI's, for the log; `request_id` is that of the request that made the work due.
    `left_alone` says that the user wants no summary.
    """

    chat: ChatKey
    token: UUID
    fallback: bool
    at_once: bool
    seq: int
    epoch: int
    attempts: int
    model: str
    window: int
    usage_factor: float
    overhead: int
    leaf: str | None
    other_leaves: Sequence[str]
    compactor: str | None
    chat_id: str
    user_id: str
    request_id: str | None
    left_alone: bool


_FREE = or_(chats.c.lease_until.is_(None), chats.c.lease_until < func.now())
_RELEASED = {"lease_token": None, "lease_until": None, "lease_endpoint": None, "leased_by": None}
_SQL = statements.load("work")
_ONE_BY_ONE = text(_SQL["one_by_one"])
_NEXT_CHAT = text(_SQL["next_chat"])
_LEASE = text(_SQL["lease"])


async def mark_due_at_once(
    connection: AsyncConnection, chat: ChatKey, request_id: str | None = None
) -> str:
    """Marks work due now, as an operator wants it: whatever failed before does not put it off.

    Returns:
        The key of the wake-up message.
    """
    query = update(chats).where(*of(chat, chats)).returning(chats.c.handed_seq)
    values = {
        "handed_seq": chats.c.handed_seq + 1,
        "due_at": func.now(),
        "attempts": 0,
        "request_id": request_id,
        "dead_at": None,
    }
    return f"{chat.id}:{(await connection.execute(query.values(values))).scalar_one()}"


async def revive(connection: AsyncConnection, tenant: int) -> int:
    """Makes all dead work of a tenant due now; returns how many chats that are."""
    query = update(chats).where(chats.c.tenant_id == tenant, chats.c.dead_at.is_not(None))
    revived = query.values(due_at=func.now(), attempts=0, dead_at=None)
    return (await connection.execute(revived)).rowcount


async def claim(
    connection: AsyncConnection, worker: str, endpoint: str | None, calls: int
) -> Lease | None:
    """Takes the lease of the chat whose turn it is; None when there is nothing to do now.

    The tenant with the least work under way is next; among equals they take turns. In a tenant the
    chat that has been due for longest goes first. At most `calls` chats of the fleet ask one
    endpoint at the same time, and a half-open one is asked for one chat. While it may not be asked,
    only chats are given out that need no call: those on which it failed `FALLBACK_AFTER` times, for
    which the built-in summariser is the fallback, and those whose requests are over `apply_at`.

    `connection` is in a transaction that ends right after the claim; the built-in summariser, an
    `endpoint` None, needs no bound.
    """
    await connection.execute(_ONE_BY_ONE)
    asking = endpoint is None or await _may_ask(connection, endpoint, calls)
    turn = await connection.execute(_NEXT_CHAT, {"asking": asking, "patience": FALLBACK_AFTER})
    row = turn.one_or_none()
    if row is None:
        return None
    fallback = endpoint is not None and row.attempts >= FALLBACK_AFTER
    at_once = not asking and not fallback
    # A lease counts against the endpoint that it names, so one without a call names none.
    asked_for = None if fallback or at_once else endpoint
    return await _lease(connection, row, worker, asked_for, fallback=fallback, at_once=at_once)


async def _may_ask(connection: AsyncConnection, endpoint: str, calls: int) -> bool:
    """Whether one more chat may ask an endpoint, of which `calls` may at the same time."""
    state = await breakers.state(connection, endpoint)
    most = {"closed": calls, "half-open": 1, "open": 0}[state]
    asking = chats.c.lease_endpoint == endpoint, chats.c.lease_until > func.now()
    count = await connection.execute(select(func.count()).where(*asking))
    return count.scalar_one() < most


async def _lease(
    connection: AsyncConnection,
    turn: Row[tuple[int, int, int]],
    worker: str,
    endpoint: str | None,
    *,
    fallback: bool,
    at_once: bool,
) -> Lease:
    chat, token = ChatKey(turn.tenant_id, turn.id), uuid4()
    # Not now(): that is before this claim waited for those before it.
    turn_taken = (
        update(tenants).where(tenants.c.id == chat.tenant).values(served_at=func.clock_timestamp())
    )
    await connection.execute(turn_taken)
    parameters = {
        "tenant": chat.tenant,
        "chat": chat.id,
        "token": token,
        "seconds": LEASE,
        "endpoint": endpoint,
        "worker": worker,
    }
    leased = (await connection.execute(_LEASE, parameters)).mappings().one()
    return Lease(chat=chat, token=token, fallback=fallback, at_once=at_once, **leased)


async def renew(connection: AsyncConnection, lease: Lease) -> bool:
    """Keeps the lease while a call takes long; False when it is lost."""
    query = update(chats).where(*_mine(lease)).values(lease_until=in_seconds(LEASE))
    return (await connection.execute(query)).rowcount == 1


async def grown(connection: AsyncConnection, lease: Lease) -> Lease | None:
    """The lease on what was ingested since, if the chat's next request is too large with it."""
    columns = chats.c.handed_seq, chats.c.leaf_id, chats.c.overhead_tokens, chats.c.usage_factor
    query = select(*columns).where(*_mine(lease), chats.c.pressing, chats.c.handed_seq > lease.seq)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    return replace(
        lease,
        seq=row.handed_seq,
        leaf=row.leaf_id,
        overhead=row.overhead_tokens,
        usage_factor=row.usage_factor,
    )


async def holds(connection: AsyncConnection, lease: Lease) -> bool:
    """Whether the lease is still ours and nothing was reset meanwhile.

    Locks the row until the transaction ends.
    """
    query = select(chats.c.epoch).where(*_mine(lease)).with_for_update()
    return (await connection.execute(query)).scalar_one_or_none() == lease.epoch


async def finish(connection: AsyncConnection, lease: Lease, *, again: bool) -> float | None:
    """Ends the work; it stays due when more was ingested meanwhile, or there is more (`again`).

    Returns:
        Seconds until it is due again; None when it is not.
    """
    # Decided by the database: an ingest or a reset may come between our look and this statement.
    more = or_(literal(again), chats.c.handed_seq > lease.seq, chats.c.epoch != lease.epoch)
    delay = 0 if again else DEBOUNCE
    values = {
        "due_leaves": chats.c.due_leaves if again else _leaves_besides(lease),
        "due_at": case((more, in_seconds(delay)), else_=null()),
        "attempts": 0,
        "last_error": None,
    }
    query = update(chats).where(*_mine(lease)).values(values | _RELEASED)
    due_at = (await connection.execute(query.returning(chats.c.due_at))).scalar_one_or_none()
    return None if due_at is None else delay


def _leaves_besides(lease: Lease) -> ColumnElement[list[str]]:
    """The leaves that became due while this work was done."""
    leaf = func.unnest(chats.c.due_leaves, type_=Text).column_valued("leaf")
    done = lease.leaf or "", *lease.other_leaves
    return func.array(select(leaf).where(not_among(leaf, done)).scalar_subquery())


async def give_back(
    connection: AsyncConnection, lease: Lease, error: str | None, delay: float | None
) -> float | None:
    """Releases the lease; the work is due again in `delay` seconds, or dead for None.

    Work that an ingest or an operator asked for during its last try is due again at once instead
    of dead. Without an error the attempt does not count.

    Returns:
        Seconds until it is due again; None when it is dead, or the lease is lost.
    """
    # `claim` has counted the attempt already.
    attempts = chats.c.attempts if error else func.greatest(chats.c.attempts - 1, 0)
    ingested_since = chats.c.handed_seq > lease.seq
    dead = {
        "due_at": case((ingested_since, func.now()), else_=null()),
        "dead_at": case((ingested_since, null()), else_=func.now()),
    }
    when = dead if delay is None else {"due_at": in_seconds(delay)}
    query = update(chats).where(*_mine(lease)).returning(chats.c.due_at)
    values = {"attempts": attempts, "last_error": error} | when | _RELEASED
    due_at = (await connection.execute(query.values(values))).scalar_one_or_none()
    return None if due_at is None else delay or 0


async def wait_on(connection: AsyncConnection, lease: Lease) -> None:
    """Releases a lease that was for an interim summary only.

    The work stays due, and nothing of it was tried. What was ingested meanwhile may need another
    interim summary.
    """
    needs_more = and_(chats.c.pressing, chats.c.handed_seq > lease.seq)
    values = {"pressing": needs_more, "attempts": func.greatest(chats.c.attempts - 1, 0)}
    await connection.execute(update(chats).where(*_mine(lease)).values(values | _RELEASED))


async def wait_for_bodies(connection: AsyncConnection, lease: Lease, reason: str) -> float | None:
    """Ends the work until a request has shown the texts again; other branches are due no more.

    Returns:
        Seconds until it is due again; None when it is not. It is at once when something was
        ingested meanwhile, because that may have been the texts.
    """
    more = chats.c.handed_seq > lease.seq
    values = {
        "wants_bodies": ~more,
        "due_leaves": [],
        "due_at": case((more, func.now()), else_=null()),
        "attempts": 0,
    }
    query = update(chats).where(*_mine(lease)).returning(chats.c.due_at)
    due = await connection.execute(query.values(values | {"last_error": reason} | _RELEASED))
    return None if due.scalar_one_or_none() is None else 0


async def ask_for_bodies(connection: AsyncConnection, chat: ChatKey) -> None:
    """Waits for the texts of a chat's next request; until then there is nothing to work on."""
    await connection.execute(
        update(chats).where(*of(chat, chats)).values(wants_bodies=True, due_at=None, dead_at=None)
    )


async def waiting(connection: AsyncConnection, limit: int, besides: ChatKey | None = None) -> int:
    """How many chats, of all tenants, are due and not worked on; counted up to `limit`."""
    query = select(chats.c.id).where(chats.c.due_at <= func.now(), _FREE)
    if besides:
        query = query.where(chats.c.id != besides.id)
    count = select(func.count()).select_from(query.limit(limit).subquery())
    return (await connection.execute(count)).scalar_one()


def _mine(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return *of(lease.chat, chats), chats.c.lease_token == lease.token
