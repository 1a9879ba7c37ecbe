"""Use case: what Precis is worth: tokens not sent, and what its summaries cost."""

from dataclasses import dataclass
from datetime import date
from typing import Final

from service.errors import Unprocessable
from service.names import By
from service.settings import Settings
from service.storage import worth
from service.storage.database import Reads
from service.storage.worth import Figures, WorthPart

MONTH: Final = 30
"""Days that are shown by default, with today."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The figures of some days (in UTC), by day, user, chat or model.

    `total` is of all parts, also of those beyond the limit, which `more` says there are.
    """

    by: By
    first_day: date
    last_day: date
    total: Figures
    parts: list[WorthPart]
    more: bool


async def read(
    reads: Reads,
    settings: Settings,
    tenant: int,
    by: By = "day",
    first_day: date | None = None,
    last_day: date | None = None,
    limit: int = MONTH,
) -> Worth:
    """The figures in at most `limit` parts, the newest days or those with the most tokens first.

    Without a last day, up to today; without a first one, the last 30 days.

    Raises:
        Unprocessable: the first day is after the last one.
    """
    last = last_day or await worth.today(reads)
    first = first_day or date.fromordinal(max(last.toordinal() - MONTH + 1, 1))
    if first > last:
        raise Unprocessable(f"`from` is {first}, which is after `to`, {last}")
    # One more than is shown says whether there are more.
    total, parts = await worth.read(reads, tenant, by, (first, last), settings.prices, limit + 1)
    return Worth(by, first, last, total, parts[:limit], more=len(parts) > limit)


def money(value: float | None) -> str:
    """An amount for people, also a small one; its currency is that of PRECIS_PRICES."""
    if value is None:
        return "no price"
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.4f}"
