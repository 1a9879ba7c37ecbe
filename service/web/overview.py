"""The overview: what needs attention, the tokens of the last 30 days, and the work."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from service.api.deps import RuntimeDep
from service.usecases import monitor
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def show_overview(
    signed_in: SignedInDep, runtime: RuntimeDep, part: Annotated[bool, Query()] = False
) -> Response:
    """The page; with `part`, only the part of it that is renewed."""
    settings, warnings = runtime.settings, runtime.worker_context.warnings
    status = await monitor.read_status(runtime.database, signed_in.by.tenant, settings, warnings)
    template = "overview_part.html" if part else "overview.html"
    return render(template, who=signed_in, place="/", status=status)
