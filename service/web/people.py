"""The users who wrote in chats; one user, and the erasure of everything stored of them."""

from typing import Final

from fastapi import APIRouter, Response

from service.api.deps import RuntimeDep
from service.api.people import UserId
from service.api.queries import UserQuery
from service.usecases import people
from service.web.page import PageRoute, go_to, make_address, render
from service.web.session import FormDep, SignedInDep

router = APIRouter(prefix="/people", route_class=PageRoute, include_in_schema=False)

_MOST_CHATS: Final = 200  # ids in each list of a user's page


@router.get("")
async def list_people(signed_in: SignedInDep, runtime: RuntimeDep, query: UserQuery) -> Response:
    """The list, by id."""
    engine, tenant = runtime.database.engine, signed_in.by.tenant
    begins, cursor = query.begins or "", query.cursor or ""
    page = await people.list_users(engine, tenant, query.limit, cursor, begins)
    return render(
        "people.html",
        who=signed_in,
        place="/people",
        people=page.users,
        begins=begins,
        next=make_address("/people", query, page.next) if page.next else "",
    )


@router.get("/{user_id}")
async def show(user_id: UserId, signed_in: SignedInDep, runtime: RuntimeDep) -> Response:
    """Shows what is stored of a user, without texts; the audit log notes who looks."""
    person = await people.show(runtime.database.engine, signed_in.by, user_id)
    return render(
        "person.html", who=signed_in, place="/people", person=person, most_chats=_MOST_CHATS
    )


@router.post("/{user_id}/erase")
async def erase(
    user_id: UserId, signed_in: SignedInDep, runtime: RuntimeDep, _: FormDep
) -> Response:
    """Deletes what is stored of a user."""
    await people.erase(runtime.database.slow, signed_in.by, user_id)
    return go_to("/people")
