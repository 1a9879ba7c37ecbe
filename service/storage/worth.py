"""What was answered, saved and spent, read: totals, and the same by day, user, model or chat.

Plain SQL on asyncpg, as `jobs`, because monitors run `precis status` often. Totals come from
`day_sums`, which has a few rows for each day, however many users and chats there are. Money is
tokens times the prices of today.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal, get_args

from service.names import By
from service.settings import Price
from service.storage.database import Reads

ANSWERS: Final = ("ready", "not_needed", "pending", "unknown")
"""Columns: answers to requests, by status."""

Outcome = Literal["compressed", "truncated_with_summary", "truncated", "unchanged"]
"""What became of a request, as the filter reports it."""

Reported = Outcome | Literal["away"]
"""The same, and of these, while the service did not answer."""

OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)

COUNTS: Final = (
    *ANSWERS,
    "tokens_not_sent",
    "calls",
    "tokens_read",
    "tokens_written",
    *OUTCOMES,
    "away",
    "refused",
)
"""All columns that are summed up."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What was counted. Amounts leave out models without a price; None when none has one.

    Attributes:
        ready: requests that were answered with a summary.
        not_needed: that were small enough.
        pending: whose summary was not written yet.
        unknown: of which no message was stored.
        tokens_not_sent: what summaries kept out of requests.
        calls: answered calls of the summariser.
        tokens_read: by the summariser.
        tokens_written: by the summariser.
        compressed: requests that were sent with a summary, as the filter reports it.
        truncated_with_summary: that had a summary, and were too large all the same.
        truncated: that lost text without any summary of it.
        unchanged: that were sent as they were.
        away: of these four, requests while the service did not answer.
        refused: times that the service refused a chat's new messages, which are then not stored.
        saved: the price of the tokens that were not sent.
        spent: the price of what the summariser read and wrote.
    """

    ready: int
    not_needed: int
    pending: int
    unknown: int
    tokens_not_sent: int
    calls: int
    tokens_read: int
    tokens_written: int
    compressed: int
    truncated_with_summary: int
    truncated: int
    unchanged: int
    away: int
    refused: int
    saved: float | None
    spent: float | None


@dataclass(frozen=True, slots=True)
class Part:
    """The sums of one day, user, model or chat; `name` is the day as ISO 8601, or an id."""

    name: str
    sums: Sums


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are summed up: of all tenants for None, of any day, user or model for None."""

    tenant: int | None
    first_day: date | None = None
    last_day: date | None = None
    user: str | None = None
    model: str | None = None


# In the order of `Sums`. What has no price adds nothing, and of nothing the sum is null.
_SUMS: Final = ", ".join(
    [
        *(f"coalesce(sum(s.{name}), 0)::bigint" for name in COUNTS),
        "sum(s.tokens_not_sent * sent.input) / 1e6",
        "sum(s.tokens_read * writer.input + s.tokens_written * writer.output) / 1e6",
    ]
)
_PRICES: Final = """
    left join unnest($1::text[], $2::float8[]) as sent (name, input) on sent.name = s.model
    left join unnest($1::text[], $2::float8[], $3::float8[]) as writer (name, input, output)
        on writer.name = s.summariser
"""
_TOKENS: Final = "sum(s.tokens_not_sent + s.tokens_read)"
_NAMES: Final[Mapping[By, str]] = {
    "day": "s.day::text",
    "user": "s.user_id",
    "model": "s.model",
    "chat": "chats.external_id",
}
_OF_CHATS: Final = (
    "chat_sums s join chats on chats.tenant_id = s.tenant_id and chats.id = s.chat_id"
)


async def today(reads: Reads) -> date:
    """The day in UTC by the database's clock, by which it is counted."""
    found: date = await reads.fetchval("select (now() at time zone 'utc')::date")
    return found


async def total(reads: Reads, wanted: Wanted, prices: Mapping[str, Price]) -> Sums:
    """Everything together."""
    query = _Query(prices)
    source, user = _source("day", wanted)
    where = query.where(wanted, user)
    # Without groups there is one row, also when nothing was counted.
    (row,) = await reads.fetch(f"select {_SUMS} from {source} {_PRICES} {where}", *query.given)
    return Sums(*row)


async def parts(
    reads: Reads, by: By, wanted: Wanted, prices: Mapping[str, Price], limit: int
) -> list[Part]:
    """The sums of single days (newest first), users, models or chats (most tokens first).

    A chat's sums are those of its whole life, so days are no condition on them.
    """
    query = _Query(prices)
    source, user = _source(by, wanted)
    where = query.where(wanted, user)
    most = "1 desc" if by == "day" else f"{_TOKENS} desc, 1"
    limited = f"limit {query.add(limit)}"
    if by == "chat":
        # All chats are only ranked, and the rest is read of those that are shown: 100 of 100,000
        # chats took 460 ms in one step, and take 170 in two.
        of_whom = source if wanted.user is not None else "chat_sums s"
        ranked = f"select s.chat_id from {of_whom} {where} group by 1 order by {_TOKENS} desc, 1"
        source = f"{source} join ({ranked} {limited}) top on top.chat_id = s.chat_id"
    rows = await reads.fetch(
        f"select {_NAMES[by]}, {_SUMS} from {source} {_PRICES} {where}"
        f" group by 1 order by {most} {limited}",
        *query.given,
    )
    return [Part(name, Sums(*sums)) for name, *sums in rows]


async def unpriced(reads: Reads, wanted: Wanted, prices: Mapping[str, Price]) -> list[str]:
    """Models with tokens and no price, by name; of all users."""
    query = _Query(prices)
    where = query.where(wanted, None)
    rows = await reads.fetch(
        f"""
        select distinct case when s.summariser = '' then s.model else s.summariser end
        from day_sums s {_PRICES} {where}
            and case when s.summariser = '' then s.tokens_not_sent > 0 and sent.input is null
                else s.tokens_read + s.tokens_written > 0 and writer.output is null end
        order by 1
        """,
        *query.given,
    )
    return [name for (name,) in rows]


def _source(by: By, wanted: Wanted) -> tuple[str, str | None]:
    """The smallest table that has the answer, and its column of users."""
    if by == "chat":
        return _OF_CHATS, "chats.user_id"
    if by == "user" or wanted.user is not None:
        return "user_sums s", "s.user_id"
    return "day_sums s", None


class _Query:
    """Collects the parameters of a statement; the prices are the first three."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        inputs = [price.input for price in prices.values()]
        outputs = [price.output for price in prices.values()]
        self.given: list[Any] = [list(prices), inputs, outputs]

    def add(self, value: object) -> str:
        """The place of one more parameter."""
        self.given.append(value)
        return f"${len(self.given)}"

    def where(self, wanted: Wanted, user: str | None) -> str:
        """The conditions; `user` is the column of users, None for a table without."""
        terms = ["true"]
        if wanted.tenant is not None:
            terms.append(f"s.tenant_id = {self.add(wanted.tenant)}")
        if wanted.first_day is not None:
            terms.append(f"s.day >= {self.add(wanted.first_day)}")
        if wanted.last_day is not None:
            terms.append(f"s.day <= {self.add(wanted.last_day)}")
        if wanted.user is not None and user:
            terms.append(f"{user} = {self.add(wanted.user)}")
        if wanted.model is not None:
            terms.append(f"s.model = {self.add(wanted.model)}")
        return f"where {' and '.join(terms)}"
