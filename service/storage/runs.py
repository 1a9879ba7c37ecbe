"""Records of rounds of work, figures of the queue for monitors, and daily sums of tokens.

A run is the record of one round on a chat. Sums are kept by tenant, day and model; they name no
user and no chat.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import delete, func, insert, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.metrics import QueueFigures
from service.storage import codec, jobs, sealing
from service.storage.database import Reads, find_newest_revision
from service.storage.sealing import AssociatedData
from service.storage.tables import ChatKey, match_chat, runs

OWN_ERROR = "internal error"
"""The outcome of a round that ended with an error of our own code."""
NOTHING = "nothing to do"
"""The outcome of a round that found nothing worth doing."""
_LATEST = 20


@dataclass(frozen=True, slots=True)
class Run:
    """One round of work on a chat.

    `request_id` is that of the request that made the work due: its log lines have it too.
    """

    id: int
    seq: int
    request_id: str | None
    outcome: str
    reason: str
    calls: int
    tokens_read: int
    tokens_written: int
    published: int
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Calls of a summariser, and the tokens that it read and wrote."""

    calls: int
    tokens_read: int
    tokens_written: int


_RUN = [runs.c[name] for name in Run.__dataclass_fields__]


async def list_latest(connection: AsyncConnection, chat: ChatKey) -> list[Run]:
    """The newest rounds of work that did something, newest first."""
    did_something = or_(runs.c.outcome != NOTHING, runs.c.calls > 0)
    query = select(*_RUN).where(match_chat(chat, runs), did_something)
    query = query.order_by(runs.c.id.desc()).limit(_LATEST)
    cipher = await sealing.find_cipher(connection, chat.tenant)
    latest_runs: list[Run] = []
    for row in (await connection.execute(query)).mappings():
        fields: dict[str, Any] = {**row, "reason": ""}
        if row["reason"]:
            packed = cipher.decrypt(aad_for_reason(chat, row["id"]), row["reason"])
            fields["reason"] = codec.unpack_text(packed)
        latest_runs.append(Run(**fields))
    return latest_runs


def aad_for_reason(chat: ChatKey, run: int) -> AssociatedData:
    """The place of a round's reason."""
    return AssociatedData(runs.name, "reason", chat, run)


async def begin_run(
    connection: AsyncConnection, chat: ChatKey, seq: int, request_id: str, *, by_code: bool
) -> int:
    """Notes that a round has begun, and that an earlier one that has not ended never will.

    Whoever begins has the chat's only lease for this kind of work: the worker of the earlier one
    was killed, or the database went away under it.
    """
    is_unfinished = runs.c.outcome == "running"
    lost = update(runs).where(match_chat(chat, runs), runs.c.by_code == by_code, is_unfinished)
    await connection.execute(lost.values(outcome="lost", ended_at=func.now()))
    values = {"seq": seq, "request_id": request_id, "by_code": by_code}
    begun = insert(runs).values(chat.columns | values)
    return cast(int, await connection.scalar(begun.returning(runs.c.id)))


async def count_run(
    connection: AsyncConnection, chat: ChatKey, run: int, spent: TokenUse, *, published: bool
) -> None:
    """Adds what an attempt took, and whether it was published, to a round."""
    counted = {
        "calls": runs.c.calls + spent.calls,
        "tokens_read": runs.c.tokens_read + spent.tokens_read,
        "tokens_written": runs.c.tokens_written + spent.tokens_written,
        "published": runs.c.published + int(published),
    }
    row = update(runs).where(match_chat(chat, runs), runs.c.id == run)
    await connection.execute(row.values(counted))


async def end_run(
    connection: AsyncConnection,
    chat: ChatKey,
    run: int,
    outcome: str,
    reason: str = "",
) -> int:
    """Notes how a round ended.

    `done`, `nothing to do`, `waits`, `failed`, `internal error`, `refused`, or `released`; `lost`
    is what the next one finds that has not.

    Returns:
        How many checkpoints it has published.
    """
    cipher = await sealing.find_cipher(connection, chat.tenant)
    sealed = None
    if reason:
        sealed = cipher.encrypt(aad_for_reason(chat, run), codec.pack_text(reason))
    values = {"outcome": outcome, "reason": sealed, "ended_at": func.now()}
    ended = update(runs).where(match_chat(chat, runs), runs.c.id == run).values(values)
    # Nothing when the chat was deleted with its rounds meanwhile.
    return await connection.scalar(ended.returning(runs.c.published)) or 0


async def drop_idle(connection: AsyncConnection, chat: ChatKey, run: int) -> None:
    """Deletes the row of a round, unless it called a summariser or published something."""
    is_idle = runs.c.calls == 0, runs.c.published == 0
    await connection.execute(delete(runs).where(match_chat(chat, runs), runs.c.id == run, *is_idle))


# An endpoint that nobody asks any more stays half-open for ever: its last failure is long ago.
_BREAKERS: Final = f"""
select {jobs.BREAKER_STATE} as state, count(*) from endpoints
where open_until is null or changed_at > now() - interval '1 hour' group by 1
"""
_FOR_MODELS: Final = "select count(*) from prompts where reply is null"


async def read_queue_figures(reads: Reads) -> QueueFigures:
    """Reads the figures; raises the driver's own errors when the database does not answer."""
    counts = await jobs.count_jobs(reads, None)
    for_models: int = await reads.fetchval(_FOR_MODELS)
    rows = await reads.fetch(_BREAKERS)
    revision: str = await reads.fetchval("select version_num from alembic_version")
    states: dict[str, int] = {
        "working": counts.working,
        "due": counts.due,
        "waiting": counts.waiting,
        "dead": counts.dead,
        "waiting_for_model": for_models,
    }
    breakers = {"closed": 0, "open": 0, "half-open": 0}
    breakers |= {row["state"]: row["count"] for row in rows}
    at_head = revision == find_newest_revision()
    return QueueFigures(states, counts.oldest_due_seconds, breakers, at_head)


COUNTS: Final = ("tokens_not_sent", "tokens_read", "truncated")
"""The columns that are summed up."""

# The database's clock, so that all processes count on the same day.
_ADD: Final = text("""
insert into sums (tenant_id, day, model, tokens_not_sent, tokens_read, truncated)
select tenants.id, cast(now() at time zone 'utc' as date), cast(:model as text),
    cast(:tokens_not_sent as bigint), cast(:tokens_read as bigint), cast(:truncated as bigint)
from tenants where tenants.id = :tenant_id
on conflict (tenant_id, day, model) do update set
    tokens_not_sent = sums.tokens_not_sent + excluded.tokens_not_sent,
    tokens_read = sums.tokens_read + excluded.tokens_read,
    truncated = sums.truncated + excluded.truncated
""")
_READ: Final = """
select day, model, tokens_not_sent, tokens_read, truncated from sums
where sums.tenant_id = $1 and day > (now() at time zone 'utc')::date - $2::int
order by day desc, tokens_not_sent + tokens_read desc, model
"""


class UsageKey(NamedTuple):
    """The tenant and the model by which counts are summed up, besides the day."""

    tenant: int
    model: str


@dataclass(frozen=True, slots=True)
class TokenSums:
    """The sums of all models.

    Attributes:
        tokens_not_sent: tokens that summaries kept out of requests.
        tokens_read: tokens that summarisers read.
        truncated: turns that lost text without a summary of it.
    """

    tokens_not_sent: int
    tokens_read: int
    truncated: int


@dataclass(frozen=True, slots=True)
class ModelDay:
    """The sums of one model on one day.

    Attributes:
        day: in UTC.
        model: the model of the chats, or a summariser.
        tokens_not_sent: tokens that summaries kept out of requests to this model.
        tokens_read: tokens that this model read as a summariser.
        truncated: turns with this model that lost text without a summary of it.
    """

    day: date
    model: str
    tokens_not_sent: int
    tokens_read: int
    truncated: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The sums of the last days, the newest first; `total` adds up all rows."""

    total: TokenSums
    rows: list[ModelDay]


async def add_sums(connection: AsyncConnection, counted: Mapping[UsageKey, Counter[str]]) -> None:
    """Adds counts, by the columns `COUNTS`, to the sums of today; none to a deleted tenant's."""
    rows = []
    # Sorted, or two processes could wait for each other.
    for key, counts in sorted(counted.items()):
        sums = {name: counts[name] for name in COUNTS}
        rows.append({"tenant_id": key.tenant, "model": key.model, **sums})
    await connection.execute(_ADD, rows)


async def read_sums(reads: Reads, tenant: int, days: int) -> Stats:
    """The sums of a tenant on the last `days`, with today (UTC)."""
    rows = [ModelDay(*row) for row in await reads.fetch(_READ, tenant, days)]
    total = TokenSums(
        sum(row.tokens_not_sent for row in rows),
        sum(row.tokens_read for row in rows),
        sum(row.truncated for row in rows),
    )
    return Stats(total, rows)
