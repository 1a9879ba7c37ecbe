"""The settings in force."""

from typing import Final

from fastapi import APIRouter, Response

from service.api.deps import RuntimeDep
from service.settings import PREFIX, Settings, redacted
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(prefix="/settings", route_class=PageRoute, include_in_schema=False)

_MEANING: Final = {name: field.description for name, field in Settings.model_fields.items()}


@router.get("")
async def show(signed_in: SignedInDep, runtime: RuntimeDep) -> Response:
    """Every setting, secrets hidden, and what it means."""
    rows = [
        (f"{PREFIX}{name.upper()}", value, _MEANING[name])
        for name, value in redacted(runtime.settings).items()
    ]
    return render("settings.html", who=signed_in, place="/settings", rows=rows)
