"""The page `/docs`: the description of the API (OpenAPI) for readers."""

from functools import lru_cache

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from service.web.page import PageRoute, render

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/docs")
async def show_docs(request: Request) -> Response:
    """The page; it needs no key, as the description needs none."""
    return HTMLResponse(_render_docs(request.app))


@lru_cache(maxsize=1)
def _render_docs(app: FastAPI) -> bytes:
    """The page, kept: anybody may ask for it, and it takes a tenth of a second to make."""
    return bytes(render("docs.html", api=app.openapi()).body)
