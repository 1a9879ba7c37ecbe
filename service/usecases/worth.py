"""Use case: what Precis is worth: tokens not sent, and what its summaries cost.

Tokens are stored, and money is made of them with the prices of today, so that a price can be
corrected.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Final

from service.errors import Unprocessable
from service.names import By
from service.settings import Settings
from service.storage import worth
from service.storage.database import Reads
from service.storage.worth import Part, Sums, Wanted

_MONTH: Final = timedelta(days=29)  # with today, 30 days
# With these, spreadsheets begin a formula, some of them after spaces too.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NAMES: Final = [field.name for field in fields(Sums)]


@dataclass(frozen=True, slots=True)
class Worth:
    """Today (in UTC), the last 30 days with it, and all that is kept.

    Amounts are in `currency`. `unpriced` are models of these 30 days that have no price.
    """

    currency: str
    today: Sums
    days_30: Sums
    whole: Sums
    unpriced: list[str]


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to see: without days the last 30, and a chat's whole life."""

    by: By = "day"
    first_day: date | None = None
    last_day: date | None = None
    user: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Sums by day, user, model or chat.

    `total` is of all parts, also of those beyond the limit, which `more` says there are. By chat,
    it has the chats that were deleted too, and both days are null.
    """

    by: By
    first_day: date | None
    last_day: date | None
    currency: str
    total: Sums
    parts: list[Part]
    more: bool
    unpriced: list[str]


async def overview(reads: Reads, tenant: int | None, settings: Settings) -> Worth:
    """What Precis is worth; of all tenants for None."""
    prices = settings.prices
    today = await worth.today(reads)
    month = Wanted(tenant, today - _MONTH)
    return Worth(
        currency=settings.currency,
        today=await worth.total(reads, Wanted(tenant, today), prices),
        days_30=await worth.total(reads, month, prices),
        whole=await worth.total(reads, Wanted(tenant), prices),
        unpriced=await worth.unpriced(reads, month, prices),
    )


async def breakdown(
    reads: Reads, tenant: int | None, asked: Asked, limit: int, settings: Settings
) -> Breakdown:
    """The same in at most `limit` parts, the newest days or those with the most tokens first.

    Raises:
        Unprocessable: the first day is after the last one, or days are given for chats.
    """
    prices = settings.prices
    first, last = await _days(reads, asked)
    wanted = Wanted(tenant, first, last, asked.user, asked.model)
    parts = await worth.parts(reads, asked.by, wanted, prices, limit + 1)
    return Breakdown(
        by=asked.by,
        first_day=first,
        last_day=last,
        currency=settings.currency,
        total=await worth.total(reads, wanted, prices),
        parts=parts[:limit],
        more=len(parts) > limit,
        unpriced=await worth.unpriced(reads, wanted, prices),
    )


async def _days(reads: Reads, asked: Asked) -> tuple[date | None, date | None]:
    first, last = asked.first_day, asked.last_day
    if asked.by == "chat":
        if first or last:
            raise Unprocessable(
                "a chat's figures are kept over its whole life: leave out `from` and `to`"
            )
        return None, None
    if first is None:
        return (last or await worth.today(reads)) - _MONTH, last
    if last and first > last:
        raise Unprocessable(f"`from` is {first}, which is after `to`, {last}")
    return first, last


def worth_lines(found: Worth) -> list[str]:
    """Two lines for people: tokens not sent, and what summaries cost."""
    today, month = found.today, found.days_30
    saved, spent = amount(month.saved, found.currency), amount(month.spent, found.currency)
    return [
        f"Tokens not sent: {today.tokens_not_sent:,} today,"
        f" {month.tokens_not_sent:,} in 30 days ({saved})",
        f"Summariser: {month.tokens_read:,} tokens read,"
        f" {month.tokens_written:,} written in 30 days ({spent})",
    ]


def amount(value: float | None, currency: str) -> str:
    """Money for people; small amounts are shown too."""
    if value is None:
        return "no price set"
    return f"{value:,.2f} {currency}" if value >= 1 or not value else f"{value:.4f} {currency}"


def as_csv(found: Breakdown) -> str:
    """The parts as a table for spreadsheets, without the total."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([found.by, *_NAMES, "currency"])
    for part in found.parts:
        writer.writerow([_harmless(part.name), *_cells(part.sums), _harmless(found.currency)])
    return out.getvalue()


def _cells(sums: Sums) -> Iterator[str]:
    for name in _NAMES:
        value = getattr(sums, name)
        # Without an exponent, which some spreadsheets read as text.
        yield f"{value:.6f}" if isinstance(value, float) else str("" if value is None else value)


def _harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula: ids and models are named by others."""
    return f"'{text}" if text.lstrip().startswith(_FORMULA) or text[:1].isspace() else text
