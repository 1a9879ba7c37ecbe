"""The page of the audit log."""

from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from service.api.deps import RuntimeDep
from service.api.wire import Id
from service.usecases import inspection
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(prefix="/audit", route_class=PageRoute, include_in_schema=False)

_SHOWN: Final = 50


@router.get("")
async def list_changes(
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    chat: Annotated[Id | Literal[""], Query()] = "",
    actor: Annotated[Id | Literal[""], Query()] = "",
    cursor: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
) -> Response:
    """A page of the audit log."""
    page = await inspection.list_changes(
        runtime.database.engine,
        signed_in.by.tenant,
        _SHOWN,
        chat=chat or None,
        actor=actor or None,
        cursor=cursor,
    )
    following = urlencode({"chat": chat, "actor": actor, "cursor": page.next})
    return render(
        "audit.html",
        who=signed_in,
        place="/audit",
        changes=page.changes,
        chosen={"chat": chat, "actor": actor},
        next=f"/audit?{following}" if page.next else "",
    )
