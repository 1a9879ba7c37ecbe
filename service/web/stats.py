"""The daily sums of tokens."""

from fastapi import APIRouter, Response

from service.api.deps import RuntimeDep
from service.api.queries import StatsQuery
from service.storage import runs
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/stats")
async def show(signed_in: SignedInDep, runtime: RuntimeDep, query: StatsQuery) -> Response:
    """The sums by day and model."""
    stats = await runs.read_sums(runtime.database.reads, signed_in.by.tenant, query.days)
    return render("stats.html", who=signed_in, place="/", stats=stats, days=query.days)
