"""Operators' route for the audit log: who changed what, and when."""

from fastapi import APIRouter

from service.api.deps import OperatorDep, RuntimeDep
from service.api.queries import ChangeQuery
from service.usecases import inspection
from service.usecases.inspection import ChangePage

router = APIRouter(prefix="/v1", tags=["operators"])


@router.get("/audit")
async def list_changes(
    operator: OperatorDep, runtime: RuntimeDep, query: ChangeQuery
) -> ChangePage:
    """Lists who changed or read what, the newest first."""
    return await inspection.list_changes(
        runtime.database.engine,
        operator.tenant,
        query.limit,
        chat=query.chat,
        actor=query.actor,
        cursor=query.cursor,
    )
