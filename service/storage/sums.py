"""Daily sums of tokens: a row for each tenant, day and model.

They name no user and no chat, so a deletion leaves them as they are.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.database import Reads

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
    """What counts are summed up by, besides the day."""

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
    # Sorted, or two processes could wait for each other.
    rows = [
        {"tenant_id": key.tenant, "model": key.model, **{name: counts[name] for name in COUNTS}}
        for key, counts in sorted(counted.items())
    ]
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
