"""What Precis is worth: by day, user, model or chat, and as CSV."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Response

from service.api.deps import RuntimeDep
from service.api.stats import asked, exported
from service.names import MOST_PARTS
from service.usecases import worth
from service.usecases.worth import Asked
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_SHOWN: Final = 100
_Asked = Annotated[Asked, Depends(asked)]


@router.get("/worth")
async def show(signed_in: SignedInDep, runtime: RuntimeDep, wanted: _Asked) -> Response:
    """The parts, the largest first."""
    found = await worth.breakdown(
        runtime.database.reads, signed_in.by.tenant, wanted, _SHOWN, runtime.settings
    )
    return render(
        "worth.html",
        who=signed_in,
        place="/",
        found=found,
        wanted=wanted,
        amount=worth.amount,
    )


@router.get("/worth.csv")
async def as_csv(signed_in: SignedInDep, runtime: RuntimeDep, wanted: _Asked) -> Response:
    """The same for spreadsheets."""
    return await exported(runtime, signed_in.by, wanted, MOST_PARTS)
