"""Operators' routes for what is stored of one user: list, show, erase."""

from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Path
from pydantic import BeforeValidator

from service.api.deps import OperatorDep, RuntimeDep
from service.api.queries import UserQuery
from service.api.wire import Id
from service.usecases import people
from service.usecases.people import ShownUser, UserPage

router = APIRouter(prefix="/v1/users", tags=["operators"])

UserId = Annotated[Id, BeforeValidator(unquote), Path(description="Open WebUI's id of the user.")]


@router.get("")
async def list_users(operator: OperatorDep, runtime: RuntimeDep, query: UserQuery) -> UserPage:
    """Lists the users who wrote in chats, by id."""
    engine, cursor = runtime.database.engine, query.cursor or ""
    return await people.list_users(engine, operator.tenant, query.limit, cursor, query.begins or "")


@router.get("/{user_id}")
async def show_user(user_id: UserId, operator: OperatorDep, runtime: RuntimeDep) -> ShownUser:
    """Shows which chats are stored of a user, and whether the audit log names them; no texts."""
    return await people.show(runtime.database.engine, operator, user_id)


@router.delete("/{user_id}", status_code=204)
async def erase_user(user_id: UserId, operator: OperatorDep, runtime: RuntimeDep) -> None:
    """Deletes everything that is stored of a user: what `GET` shows.

    Chats of others that have words of the user are deleted too; the next request of such a chat
    stores again what Open WebUI still has, where nothing is deleted. For a day, nothing of the user
    is stored.
    """
    await people.erase(runtime.database.slow, operator, user_id)
