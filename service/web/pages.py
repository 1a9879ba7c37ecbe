"""Adds the pages and what they load to the application."""

from typing import Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from service.web import (
    audit,
    chats,
    checkpoints,
    docs,
    find,
    jobs,
    overview,
    people,
    sign_in,
    stats,
)
from service.web.page import FOLDER, HEADERS, render_no_route

_MODULES: Final = (
    sign_in,
    overview,
    stats,
    chats,
    find,
    checkpoints,
    jobs,
    people,
    audit,
    docs,
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
    # Only these are compressed: the length of a compressed page tells what of it is in the request
    # too (BREACH).
    app.mount("/static", GZipMiddleware(_Static(directory=FOLDER / "static")))
    for module in _MODULES:
        app.include_router(module.router)
    app.add_exception_handler(HTTPException, render_no_route)
