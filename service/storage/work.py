"""Due work: the columns of `chats` that say what is to be done, and who is doing it.

There are two kinds. Code's work (`code_at`, a lease of `code_token` and `code_until`) takes a
moment and needs nobody. The model's (`due_at`, `lease_token` and `lease_until`) follows it, and
may wait for the summariser's endpoint. Each has a lease of its own, so code works on a chat also
while a call for it is out. A chat is due, by `due_at`, as long as either has something to do.

The row is the truth. Redis only wakes workers: flush it, and a sweep finds the work again. Workers
do not choose: `claim` gives each the chat whose turn it is. All times are the database's, so
workers' clocks do not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    case,
    extract,
    func,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service import request_ids
from service.storage import database, jobs
from service.storage.jobs import Endpoint
from service.storage.tables import (
    ChatKey,
    after_seconds,
    chats,
    match_chat,
    not_in_values,
    tenants,
    update_chat,
)

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
    """The right to do one kind of work on a chat until it expires.

    Attributes:
        chat: the chat.
        token: fences whatever is written with it.
        by_code: whether it is for code's work.
        ends_work: whether no other kind of work follows: the model's work, and code's where no
            model writes summaries.
        fallback: the built-in summariser writes in the model's place, because the LLM has failed on
            this chat too often.
        seq: the number of the newest ingest that made work due.
        epoch: raised by a reset.
        leaves: of the branches that are due; first the newest, on which the user goes on.
        chat_id, user_id: Open WebUI's, for the log.
        request_id: of the request that made the work due.
        left_alone: the user wants no summary.
        writer: the model of the chat's host that writes its summaries; None where none does.
    """

    chat: ChatKey
    token: UUID
    by_code: bool
    ends_work: bool
    fallback: bool
    seq: int
    epoch: int
    attempts: int
    model: str
    window: int
    usage_factor: float
    overhead: int
    leaves: Sequence[str]
    compactor: str | None
    chat_id: str
    user_id: str
    request_id: str | None
    left_alone: bool
    writer: str | None

    @property
    def code_writes(self) -> bool:
        """Whether no model is asked."""
        return self.by_code or self.fallback


_CODE_AT = chats.c.code_at
_CODE_WAITS = and_(
    chats.c.code_at <= func.now(),
    or_(chats.c.code_until.is_(None), chats.c.code_until < func.now()),
)
_MODEL_WAITS = and_(
    chats.c.due_at <= func.now(),
    or_(chats.c.lease_until.is_(None), chats.c.lease_until < func.now()),
    chats.c.code_until.is_(None),
    func.coalesce(chats.c.code_at > func.now(), True),
)
_SQL = database.load_texts("work")


async def mark_due_at_once(connection: AsyncConnection, chat: ChatKey) -> str:
    """Marks work due now, as an operator wants it: whatever failed before does not put it off.

    Returns:
        The key of the wake-up message.
    """
    values = {
        "handed_seq": chats.c.handed_seq + 1,
        "due_at": func.now(),
        "code_at": func.now(),
        "attempts": 0,
        "request_id": request_ids.get_current(),
        "dead_at": None,
    }
    marked = update_chat(chat).values(values)
    number = (await connection.scalars(marked.returning(chats.c.handed_seq))).one()
    return f"{chat.id}:{number}"


async def mark_due_for_code(connection: AsyncConnection, chat: ChatKey) -> None:
    """Marks code's work due now: a model has written what code's summaries are to grow from."""
    earlier = func.least(chats.c.code_at, func.now())
    await connection.execute(update_chat(chat).values(code_at=earlier))


async def revive_dead(connection: AsyncConnection, tenant: int) -> int:
    """Makes all dead work of a tenant due now; returns how many chats that are."""
    query = update(chats).where(chats.c.tenant_id == tenant, chats.c.dead_at.is_not(None))
    now = func.now()
    revived = query.values(due_at=now, code_at=now, attempts=0, dead_at=None)
    return (await connection.execute(revived)).rowcount


async def claim_work(
    connection: AsyncConnection, worker: str, endpoint: str | None, calls: int
) -> Lease | None:
    """Takes a lease for the work whose turn it is; None when there is nothing to do now.

    The tenant with the least work under way is next; among equals they take turns. In a tenant,
    code's work goes before the model's, and the chat that has been due for longest goes first. At
    most `calls` chats of the fleet ask one endpoint at the same time, and a half-open one is asked
    for one chat. While it may not be asked, the model's work is given out only for chats on which
    it failed `FALLBACK_AFTER` times: there the built-in summariser is the fallback.

    `connection` is in a transaction that ends right after the claim; the built-in summariser, an
    `endpoint` None, needs no bound.
    """
    await connection.execute(_SQL["one_by_one"])
    asking = endpoint is None or await _may_ask(connection, endpoint, calls)
    turn = await connection.execute(
        _SQL["next_chat"], {"asking": asking, "patience": FALLBACK_AFTER}
    )
    row = turn.one_or_none()
    if row is None:
        return None
    chat, token = ChatKey(row.tenant_id, row.id), uuid4()
    # Not now(): that is before this claim waited for those before it.
    turn_taken = (
        update(tenants).where(tenants.c.id == chat.tenant).values(served_at=func.clock_timestamp())
    )
    await connection.execute(turn_taken)
    alone = endpoint is None and row.writer is None
    fallback = not row.by_code and not alone and row.attempts >= FALLBACK_AFTER
    given = chat.parameters(token=token, seconds=LEASE, worker=worker)
    if row.by_code:
        leased = await connection.execute(_SQL["lease_for_code"], given | {"alone": alone})
    else:
        # A lease counts against the endpoint that it names, so one without a call names none.
        asked = None if fallback else endpoint
        leased = await connection.execute(_SQL["lease_for_model"], given | {"endpoint": asked})
    return Lease(
        chat=chat,
        token=token,
        by_code=row.by_code,
        ends_work=alone or not row.by_code,
        fallback=fallback,
        **leased.mappings().one(),
    )


async def _may_ask(connection: AsyncConnection, endpoint: str, calls: int) -> bool:
    """Whether one more chat may ask an endpoint, of which `calls` may at the same time."""
    state = await jobs.read_state(connection, Endpoint(endpoint))
    most = {"closed": calls, "half-open": 1, "open": 0}[state]
    asking = chats.c.lease_endpoint == endpoint, chats.c.lease_until > func.now()
    count = await connection.execute(select(func.count()).where(*asking))
    return count.scalar_one() < most


async def renew_lease(connection: AsyncConnection, lease: Lease) -> bool:
    """Keeps the lease while the work takes long; False when it is lost."""
    end = after_seconds(LEASE)
    values: dict[str, Any] = {"lease_until": end}
    if lease.by_code:
        code_at = case((_was_asked_since(), _CODE_AT), else_=end)
        values = {"code_until": end, "code_at": code_at}
    query = update(chats).where(_match_lease(lease)).values(values)
    return (await connection.execute(query)).rowcount == 1


async def holds_lease(connection: AsyncConnection, lease: Lease) -> bool:
    """Whether the lease is still ours and nothing was reset meanwhile.

    Locks the row until the transaction ends.
    """
    query = select(chats.c.epoch).where(_match_lease(lease)).with_for_update()
    return await connection.scalar(query) == lease.epoch


async def yields_to_others(connection: AsyncConnection, lease: Lease) -> bool:
    """Whether a round ends early: another chat waits for work of its kind, or its own went on."""
    waits = _CODE_WAITS if lease.by_code else _MODEL_WAITS
    # Another tenant's, too.
    another = select(chats.c.id).where(waits, chats.c.id != lease.chat.id)
    went_on = select(chats.c.id).where(_match_lease(lease), chats.c.handed_seq > lease.seq)
    either = or_(another.exists(), went_on.exists())
    return bool(await connection.scalar(select(either)))


async def finish_code(
    connection: AsyncConnection, lease: Lease, *, again: bool, model_next: bool
) -> float | None:
    """Ends code's work, unless there is more (`again`), or it was made due meanwhile.

    Unless the model is next, all work ends.

    Returns:
        Seconds until code's work is due again; None when it is not.
    """
    # Decided by the database: an ingest or a reset may come between our look and this statement.
    code_at = func.now() if again else case((_was_asked_since(), _CODE_AT), else_=null())
    values: dict[str, Any] = {"code_at": code_at}
    if not again and not model_next:
        values |= _end_well(lease)
        values["due_at"] = case((_was_changed_since(lease), chats.c.due_at), else_=code_at)
    return await _release(connection, lease, values, chats.c.code_at)


async def finish_model(connection: AsyncConnection, lease: Lease, *, again: bool) -> float | None:
    """Ends the model's work, unless there is more (`again`), or something was ingested meanwhile.

    The chat stays due as long as code's work is: that may leave something to the model.

    Returns:
        Seconds until the chat is due again; None when it is not.
    """
    values = _end_well(lease)
    if again:
        values["due_at"] = after_seconds(0)
        del values["due_leaves"]
    else:
        settled_at = after_seconds(DEBOUNCE)
        values["due_at"] = case((_was_changed_since(lease), settled_at), else_=_CODE_AT)
    return await _release(connection, lease, values, chats.c.due_at)


def _end_well(lease: Lease) -> dict[str, Any]:
    """The changes after work that went well: its leaves are due no more, and nothing failed."""
    leaf = func.unnest(chats.c.due_leaves, type_=Text).column_valued("leaf")
    became_due = select(leaf).where(not_in_values(leaf, lease.leaves)).scalar_subquery()
    return {"due_leaves": func.array(became_due), "attempts": 0, "last_error": None}


async def give_back(
    connection: AsyncConnection, lease: Lease, error: str | None, delay: float | None
) -> float | None:
    """Releases the lease; the work is due again in `delay` seconds, or dead for None.

    Work that an ingest or an operator asked for during its last try is due again at once instead
    of dead. Without an error the attempt does not count, and what failed before is still to be
    seen: the worker was stopped, or the model's work waits for a reply. If code fails, the model's
    work may go on.

    Returns:
        Seconds until it is due again; None when it is dead, or the lease is lost.
    """
    ingested_since = chats.c.handed_seq > lease.seq
    when: Any = after_seconds(delay or 0)
    if delay is None:
        when = case((ingested_since, func.now()), else_=null())
    values: dict[str, Any] = {"last_error": error} if error else {}
    if lease.by_code:
        values["code_at"] = when
    if lease.ends_work:
        # `claim` has counted the attempt already.
        attempts = chats.c.attempts if error else func.greatest(chats.c.attempts - 1, 0)
        values |= {"due_at": when, "attempts": attempts}
        if delay is None:
            values["dead_at"] = case((ingested_since, null()), else_=func.now())
    return await _release(connection, lease, values, when)


async def _release(
    connection: AsyncConnection, lease: Lease, values: dict[str, Any], due: ColumnElement[Any]
) -> float | None:
    """Releases a lease that is still ours; the seconds until what is `due` then, None for never."""
    released = {"code_token": None, "code_until": None}
    if not lease.by_code:
        released = dict.fromkeys(("lease_token", "lease_until", "lease_endpoint", "leased_by"))
    seconds = extract("epoch", due - func.now())
    query = update(chats).where(_match_lease(lease)).values(values | released)
    found = await connection.scalar(query.returning(seconds))
    return None if found is None else max(float(found), 0)


async def count_waiting(connection: AsyncConnection, limit: int) -> int:
    """The number of chats, of all tenants, with work that nobody does; counted up to `limit`."""
    waiting = select(chats.c.id).where(or_(_CODE_WAITS, _MODEL_WAITS)).limit(limit)
    count = select(func.count()).select_from(waiting.subquery())
    return (await connection.execute(count)).scalar_one()


def _was_changed_since(lease: Lease) -> ColumnElement[bool]:
    """Whether something was ingested, or a reset asked for, after the lease began."""
    return or_(chats.c.handed_seq > lease.seq, chats.c.epoch != lease.epoch)


def _was_asked_since() -> ColumnElement[bool]:
    """Whether code's work became due under its lease; else it is due when the lease ends."""
    return chats.c.code_at < chats.c.code_until


def _match_lease(lease: Lease) -> ColumnElement[bool]:
    token = chats.c.code_token if lease.by_code else chats.c.lease_token
    return and_(match_chat(lease.chat, chats), token == lease.token)
