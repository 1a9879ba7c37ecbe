"""Operators' route for the audit log: who changed what, and when."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from service.api.deps import OperatorDep, RuntimeDep
from service.api.wire import Id
from service.storage.audit import Change
from service.usecases import inspect

router = APIRouter(prefix="/v1", tags=["operators"])


class AuditPage(BaseModel):
    """A page of changes; `next` is the `cursor` for the next page, null on the last one."""

    changes: list[Change]
    next: int | None = None


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
) -> AuditPage:
    """Lists what operators changed, the newest first."""
    # One more than the page holds shows whether there is a next page.
    found = await inspect.list_changes(
        runtime.database.engine,
        operator.tenant,
        limit + 1,
        chat=chat,
        actor=actor,
        before=cursor,
    )
    page = found[:limit]
    return AuditPage(changes=page, next=page[-1].id if len(found) > limit else None)
