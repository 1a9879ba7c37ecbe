"""The page of the audit log."""

from fastapi import APIRouter, Response

from service.api.deps import RuntimeDep
from service.api.queries import ChangeQuery
from service.usecases import inspection
from service.web.page import PageRoute, make_address, render
from service.web.session import SignedInDep

router = APIRouter(prefix="/audit", route_class=PageRoute, include_in_schema=False)


@router.get("")
async def list_changes(signed_in: SignedInDep, runtime: RuntimeDep, query: ChangeQuery) -> Response:
    """A page of the audit log."""
    page = await inspection.list_changes(
        runtime.database.engine,
        signed_in.by.tenant,
        query.limit,
        chat=query.chat,
        actor=query.actor,
        cursor=query.cursor,
    )
    return render(
        "audit.html",
        who=signed_in,
        place="/audit",
        changes=page.changes,
        chosen=query,
        next=make_address("/audit", query, page.next) if page.next else "",
    )
