"""Operators' route for the audit log: who changed what, and when."""

from typing import Annotated

from fastapi import APIRouter, Query

from service.api.deps import OperatorDep, RuntimeDep
from service.api.wire import Id
from service.usecases import inspection
from service.usecases.inspection import ChangePage

router = APIRouter(prefix="/v1", tags=["operators"])


@router.get("/audit")
async def list_changes(
    operator: OperatorDep,
    runtime: RuntimeDep,
    chat: Annotated[Id | None, Query(description="Only changes of this chat.")] = None,
    actor: Annotated[
        Id | None, Query(description="Only changes by this actor, exactly as the list names it.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[
        int | None, Query(ge=1, lt=2**63, description="`next` of the previous page.")
    ] = None,
) -> ChangePage:
    """Lists who changed or read what, the newest first."""
    return await inspection.list_changes(
        runtime.database.engine, operator.tenant, limit, chat=chat, actor=actor, cursor=cursor
    )
