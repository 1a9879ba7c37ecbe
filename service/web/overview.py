"""The overview: what to look at, what it is worth, and how the work stands."""

from datetime import date, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response

from service.api.deps import RuntimeDep
from service.usecases import monitor
from service.usecases.worth import MONTH, Worth
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def overview(
    signed_in: SignedInDep, runtime: RuntimeDep, part: Annotated[bool, Query()] = False
) -> Response:
    """The page, or with `part` what of it is renewed."""
    settings, warnings = runtime.settings, runtime.worker_context.warnings
    status = await monitor.status(runtime.database, signed_in.by.tenant, settings, warnings)
    return render(
        "overview_part.html" if part else "overview.html",
        who=signed_in,
        place="/",
        status=status,
        days=columns(status.worth),
    )


def columns(month: Worth) -> list[tuple[date, int]]:
    """Tokens not sent on each of the last 30 days, also on those without any."""
    by_day = {part.name: part.figures.tokens_not_sent for part in month.parts}
    days = [month.first_day + timedelta(days=number) for number in range(MONTH)]
    return [(day, by_day.get(day.isoformat(), 0)) for day in days]
