"""Operators' routes for what is stored of one user: list, show, export, erase."""

from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse
from pydantic import BeforeValidator

from service.api.deps import OperatorDep, RuntimeDep
from service.api.wire import Id
from service.runtime import Runtime
from service.storage.audit import Operator
from service.usecases import people
from service.usecases.people import Erased, ShownUser, UserPage

router = APIRouter(prefix="/v1/users", tags=["operators"])

UserId = Annotated[Id, BeforeValidator(unquote), Path(description="Open WebUI's id of the user.")]


@router.get("")
async def list_users(
    operator: OperatorDep,
    runtime: RuntimeDep,
    begins: Annotated[Id | None, Query(description="Only users whose id begins so.")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[Id | None, Query(description="`next` of the previous page.")] = None,
) -> UserPage:
    """Lists the users who wrote in chats, by id."""
    return await people.list_users(
        runtime.database.engine, operator.tenant, limit, cursor or "", begins or ""
    )


@router.get("/{user_id}")
async def show_user(user_id: UserId, operator: OperatorDep, runtime: RuntimeDep) -> ShownUser:
    """Shows what is stored of a user: chats, messages, summaries, figures; no texts."""
    return await people.show(runtime.database.engine, operator, user_id)


@router.get("/{user_id}/export", response_class=StreamingResponse)
async def export_user(
    user_id: UserId, operator: OperatorDep, runtime: RuntimeDep
) -> StreamingResponse:
    """Exports everything that is stored of a user, with texts, as lines of JSON.

    Each line is a record whose `type` says what it is: `user`, `chat`, `message`, `checkpoint`,
    `work`, `figures` or `audit`.
    """
    return await exported(runtime, operator, user_id)


@router.delete("/{user_id}")
async def erase_user(
    user_id: UserId,
    operator: OperatorDep,
    runtime: RuntimeDep,
    dry_run: Annotated[
        bool, Query(description="Only say what would be deleted, and what would remain.")
    ] = False,
) -> Erased:
    """Deletes everything that is stored of a user. Answers what was deleted, and what remains.

    Nothing is deleted in Open WebUI. For a day, nothing of the user is stored.
    """
    return await people.erase(runtime.database.engine, operator, user_id, dry=dry_run)


async def exported(runtime: Runtime, by: Operator, user: str) -> StreamingResponse:
    """An export as a file, which the audit log notes; the pages give it too."""
    records = await people.export(runtime.database.engine, by, user)
    headers = {"Content-Disposition": 'attachment; filename="precis-user.jsonl"'}
    return StreamingResponse(_lines(records), headers=headers, media_type="application/x-ndjson")


async def _lines(records: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for record in records:
        yield msgspec.json.encode(record) + b"\n"
