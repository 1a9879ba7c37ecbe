"""The overview: what it is worth, how the work stands, and what to look at."""

from datetime import date, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from service.api.deps import RuntimeDep
from service.usecases import monitor, worth
from service.usecases.advice import About
from service.usecases.worth import Asked, Breakdown
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_DAYS: Final = 30
_WHERE: Final[dict[About, str]] = {
    "encryption": "/settings",
    "work": "/jobs",
    "dead": "/jobs?state=dead",
    "summariser": "/jobs",
    "chats": "/chats?has=degraded",
    "requests": "/worth",
    "settings": "/settings",
    "keys": "/keys",
}
"""Where the pages show what an advice is about."""


@router.get("/")
async def overview(
    signed_in: SignedInDep, runtime: RuntimeDep, part: Annotated[bool, Query()] = False
) -> Response:
    """The page, or with `part` what of it is renewed."""
    reads, settings, tenant = runtime.database.reads, runtime.settings, signed_in.by.tenant
    status = await monitor.status(reads, tenant, settings)
    days = await worth.breakdown(reads, tenant, Asked("day"), _DAYS, settings)
    return render(
        "overview_part.html" if part else "overview.html",
        who=signed_in,
        place="/",
        status=status,
        days=columns(days),
        where=_WHERE,
        by_code=settings.summariser == "extractive",
        amount=worth.amount,
    )


def columns(days: Breakdown) -> list[tuple[date, int]]:
    """Tokens not sent on each of the last 30 days, also on those without any."""
    first = days.first_day or date.today()  # noqa: DTZ011 - by day there is always a first one
    counted = {part.name: part.sums.tokens_not_sent for part in days.parts}
    all_days = [first + timedelta(days=number) for number in range(_DAYS)]
    return [(day, counted.get(day.isoformat(), 0)) for day in all_days]
