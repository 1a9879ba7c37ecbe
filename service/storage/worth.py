"""What was saved and spent, read: by day, user, chat or model, and all together.

Plain SQL on asyncpg, as `jobs`. Money is tokens times the prices of today.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from service.names import By
from service.storage.database import Reads


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted, and its price; of models without a price there is none.

    Attributes:
        tokens_not_sent: what summaries kept out of requests.
        tokens_read: by the summariser.
        truncated: turns that lost text without any summary of it.
        saved: the price of the tokens that were not sent; None when no model has one.
        spent: the price of what the summariser read; None when no model has one.
    """

    tokens_not_sent: int
    tokens_read: int
    truncated: int
    saved: float | None
    spent: float | None


@dataclass(frozen=True, slots=True)
class WorthPart:
    """The figures of one day, user, chat or model.

    `name` is the day as ISO 8601, or an id; empty for an unknown or deleted user or chat.
    """

    name: str
    figures: Figures


# What rows are summed up by, and what a part is called.
_KEYS: Final[Mapping[By, str]] = {
    "day": "day",
    "user": "user_id",
    "chat": "chat_number",
    "model": "model",
}
_NAMES: Final[Mapping[By, str]] = {
    "day": "counted.key::text",
    "user": "counted.key",
    "chat": "coalesce(chats.external_id, '')",  # a deleted chat has figures under its old number
    "model": "counted.key",
}
# In two steps, so that names and prices are looked up once for each part and model. Days are part
# of the text, because PostgreSQL's plan for any days takes seven times as long (1.6 million rows of
# a year: 0.8 s). The total is the first row, also of nothing. What has no price adds nothing.
_READ: Final = """
with counted as (
    select {key} as key, model, sum(tokens_not_sent) as tokens_not_sent,
        sum(tokens_read) as tokens_read, sum(truncated) as truncated
    from sums where sums.tenant_id = $4 and day between '{first}' and '{last}'
    group by 1, 2
), parts as (
    select {name} as name, sum(tokens_not_sent) as tokens_not_sent,
        sum(tokens_read) as tokens_read, sum(truncated) as truncated,
        sum(tokens_not_sent * price.million) / 1e6 as saved,
        sum(tokens_read * price.million) / 1e6 as spent
    from counted
    left join unnest($1::text[], $2::float8[]) as price (model, million)
        on price.model = counted.model
    {chats}
    group by 1
)
select null as name,
    coalesce(sum(tokens_not_sent), 0)::bigint,
    coalesce(sum(tokens_read), 0)::bigint,
    coalesce(sum(truncated), 0)::bigint,
    sum(saved),
    sum(spent)
from parts
union all
(
    select name, tokens_not_sent::bigint, tokens_read::bigint, truncated::bigint, saved, spent
    from parts order by {order} limit $3
)
"""


async def today(reads: Reads) -> date:
    """The day in UTC by the database's clock, by which it is counted."""
    day: date = await reads.fetchval("select (now() at time zone 'utc')::date")
    return day


async def read(
    reads: Reads,
    tenant: int,
    by: By,
    days: tuple[date, date],
    prices: Mapping[str, float],
    limit: int,
) -> tuple[Figures, list[WorthPart]]:
    """All together, and at most `limit` parts.

    The newest days come first, or what has the most tokens. `days` are the first and the last one;
    prices are those of a million tokens.
    """
    its_chats = "left join chats on chats.tenant_id = $4 and chats.id = counted.key"
    query = _READ.format(
        first=days[0].isoformat(),
        last=days[1].isoformat(),
        key=_KEYS[by],
        name=_NAMES[by],
        chats=its_chats if by == "chat" else "",
        order="name desc" if by == "day" else "tokens_not_sent + tokens_read desc, name",
    )
    given = [list(prices), list(prices.values()), limit, tenant]
    (_, *total), *rows = await reads.fetch(query, *given)
    return Figures(*total), [WorthPart(name, Figures(*figures)) for name, *figures in rows]
