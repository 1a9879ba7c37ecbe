"""The settings in force."""

from typing import Final

from fastapi import APIRouter, Response

from service.api.deps import RuntimeDep
from service.settings import PREFIX, Settings, for_operators
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(prefix="/settings", route_class=PageRoute, include_in_schema=False)

# Descriptions are Markdown, and a page is none.
_MEANING: Final = {
    f"{PREFIX}{name.upper()}": (field.description or "").replace("`", "")
    for name, field in Settings.model_fields.items()
}


@router.get("")
async def show(signed_in: SignedInDep, runtime: RuntimeDep) -> Response:
    """Every setting, of secrets whether they are set, and what it means."""
    return render(
        "settings.html",
        who=signed_in,
        place="/settings",
        settings=for_operators(runtime.settings),
        meaning=_MEANING,
    )
