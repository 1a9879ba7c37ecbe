"""Records of rounds of work, figures of the queue for monitors, and daily sums of tokens.

A run is the record of one round on a chat. Sums are kept by tenant, day and model; they name no
user and no chat.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from service.metrics import QueueFigures
from service.storage import codec, database, jobs, sealing
from service.storage.database import Reads, find_newest_revision
from service.storage.sealing import AssociatedData
from service.storage.tables import ChatKey, runs

OWN_ERROR = "internal error"
"""The outcome of a round that ended with an error of our own code."""
NOTHING = "nothing to do"
"""The outcome of a round that found nothing worth doing."""


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


_READS = database.load_statements("runs")
_SQL = database.load_texts(
    "runs", columns=", ".join(Run.__dataclass_fields__), state=jobs.BREAKER_STATE
)


async def list_latest(connection: AsyncConnection, chat: ChatKey) -> list[Run]:
    """The newest rounds of work that did something, newest first."""
    cipher = await sealing.find_cipher(connection, chat.tenant)
    rows = await connection.execute(_SQL["latest"], chat.parameters(nothing=NOTHING))
    latest_runs: list[Run] = []
    for row in rows.mappings():
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
    """Notes that a round has begun, and that an earlier one that has not ended never will."""
    await connection.execute(_SQL["lose"], chat.parameters(by_code=by_code))
    parameters = chat.parameters(seq=seq, request_id=request_id, by_code=by_code)
    return cast(int, await connection.scalar(_SQL["begin"], parameters))


async def count_run(
    connection: AsyncConnection, chat: ChatKey, run: int, spent: TokenUse, *, published: bool
) -> None:
    """Adds what an attempt took, and whether it was published, to a round."""
    parameters = chat.parameters(run=run, published=int(published), **asdict(spent))
    await connection.execute(_SQL["count"], parameters)


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
    parameters = chat.parameters(run=run, outcome=outcome, reason=sealed)
    # Nothing when the chat was deleted with its rounds meanwhile.
    return await connection.scalar(_SQL["end"], parameters) or 0


async def drop_idle(connection: AsyncConnection, chat: ChatKey, run: int) -> None:
    """Deletes the row of a round, unless it called a summariser or published something."""
    await connection.execute(_SQL["drop_idle"], chat.parameters(run=run))


async def read_queue_figures(reads: Reads) -> QueueFigures:
    """Reads the figures; raises the driver's own errors when the database does not answer."""
    counts = await jobs.count_jobs(reads, None)
    for_models: int = await reads.fetchval(_READS["prompts_for_models"])
    rows = await reads.fetch(_READS["breakers"].format(state=jobs.BREAKER_STATE))
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
    await connection.execute(_SQL["add_sums"], rows)


async def read_sums(reads: Reads, tenant: int, days: int) -> Stats:
    """The sums of a tenant on the last `days`, with today (UTC)."""
    rows = [ModelDay(*row) for row in await reads.fetch(_READS["read_sums"], tenant, days)]
    total = TokenSums(
        sum(row.tokens_not_sent for row in rows),
        sum(row.tokens_read for row in rows),
        sum(row.truncated for row in rows),
    )
    return Stats(total, rows)
