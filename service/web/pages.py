"""Adds the pages and what they load to the application."""

from typing import Final

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from service.web import (
    audit,
    chats,
    checkpoints,
    jobs,
    keys,
    overview,
    settings,
    sign_in,
    summarisers,
    worth,
)
from service.web.page import FOLDER, HEADERS

_MODULES: Final = (
    sign_in,
    overview,
    worth,
    summarisers,
    chats,
    checkpoints,
    jobs,
    keys,
    audit,
    settings,
)
# Each address has the version in it.
_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"


class _Static(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS | {"Cache-Control": _FOR_A_YEAR})
        return response


def install(app: FastAPI) -> None:
    """Adds the pages to `app`."""
    app.state.sign_ins = sign_in.attempts()
    app.mount("/static", _Static(directory=FOLDER / "static"))
    for module in _MODULES:
        app.include_router(module.router)
