"""The page `/docs`: the API as its description (OpenAPI) has it, to read."""

from functools import lru_cache

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from service.web.page import PageRoute, render

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The page; it needs no key, as the description needs none."""
    return HTMLResponse(_page(request.app))


@lru_cache(maxsize=1)
def _page(app: FastAPI) -> bytes:
    """Kept, because anybody may ask for it and it takes a tenth of a second."""
    return bytes(render("docs.html", api=app.openapi()).body)
