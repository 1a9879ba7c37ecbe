"""The users who wrote in chats; one user, and the erasure of everything stored of them."""

from typing import Annotated, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from service.api.deps import RuntimeDep
from service.api.people import UserId
from service.api.wire import Id
from service.usecases import people
from service.web.page import PageRoute, go_to, render
from service.web.session import FormDep, SignedInDep

router = APIRouter(prefix="/people", route_class=PageRoute, include_in_schema=False)

_SHOWN: Final = 50
_MOST_CHATS: Final = 200  # ids in each list of a user's page


@router.get("")
async def list_people(
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    begins: Annotated[Id | Literal[""], Query()] = "",
    cursor: Annotated[Id | Literal[""], Query()] = "",
) -> Response:
    """The list, by id."""
    page = await people.list_users(
        runtime.database.engine, signed_in.by.tenant, _SHOWN, cursor, begins
    )
    following = urlencode({"begins": begins, "cursor": page.next})
    return render(
        "people.html",
        who=signed_in,
        place="/people",
        people=page.users,
        begins=begins,
        next=f"/people?{following}" if page.next else "",
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
