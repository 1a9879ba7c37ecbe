"""The common parts of all pages: templates, headers, and errors as pages."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from service import __version__
from service.api import problems
from service.errors import Problem
from service.web import words

FOLDER: Final = Path(__file__).parent
SIGN_IN: Final = "/sign-in"

# Everything comes from the service itself; nothing else may be loaded, framed or posted to.
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Pages may show texts of chats.
    "Cache-Control": "no-store",
}

_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=words.visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= words.FILTERS
_TEMPLATES.globals |= {"version": __version__, "place": ""}


class SignInNeeded(Exception):
    """Nobody is signed in, or the session has ended."""


def render(template: str, /, code: int = HTTPStatus.OK, **given: object) -> HTMLResponse:
    """Renders a page, or a part of one, from a template and its values."""
    return HTMLResponse(_TEMPLATES.get_template(template).render(given), code)


def go_to(path: str) -> RedirectResponse:
    """The answer to a form: the browser gets `path` next, so that a reload posts nothing."""
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)


def make_address(path: str, parameters: BaseModel, cursor: object) -> str:
    """The address of a list with the same filters, from `cursor` on."""
    fields = parameters.model_dump(exclude={"limit", "part"}, exclude_none=True)
    return f"{path}?{urlencode(fields | {'cursor': cursor}, doseq=True)}"


class PageRoute(APIRoute):
    """A route whose errors are pages, and whose answers have the headers above."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's hook around a route's work."""
        answer = super().get_route_handler()

        async def page(request: Request) -> Response:
            try:
                response = await answer(request)
            except SignInNeeded:
                response = _go_to_sign_in(request)
            except RequestValidationError as error:
                problem = problems.make_validation_problem(error.errors())
                response = _render_failure(request, problem)
            except Exception as error:
                problem = problems.make_problem(error, request.url.path)
                response = _render_failure(request, problem)
            response.headers.update(HEADERS)
            return response

        return page


def is_part(request: Request) -> bool:
    """Whether a script asks for a part of a page that the browser shows already."""
    return "hx-request" in request.headers


def _go_to_sign_in(request: Request) -> Response:
    if is_part(request):
        # A redirect would put the form into the middle of the page.
        return Response(status_code=HTTPStatus.NO_CONTENT, headers={"HX-Refresh": "true"})
    if request.method != "GET" or request.url.path == "/":
        return go_to(SIGN_IN)
    path = request.scope["raw_path"].decode("ascii", "replace")  # encoded, as a link has it
    if request.url.query:
        path = f"{path}?{request.url.query}"
    # Without a host: behind a proxy, this process may not know how it is reached.
    back = urlencode({"back": path})
    return go_to(f"{SIGN_IN}?{back}")


def _render_failure(request: Request, problem: Problem) -> Response:
    title = problem.title.rstrip(".")
    template = "failed_part.html" if is_part(request) else "failed.html"
    response = render(template, problem.status, title=title, problem=problem)
    response.headers.update(problems.make_headers(problem))
    return response


async def render_no_route(request: Request, error: Exception) -> Response:
    """The answer where no route has the address or the method: for a browser, a page."""
    wants_page = "text/html" in request.headers.get("accept", "")
    if not wants_page or request.url.path.startswith("/v1/"):
        return await problems.answer_http_error(request, error)
    refused = cast(HTTPException, error)
    title = HTTPStatus(refused.status_code).phrase.capitalize()
    detail = problems.explain_refusal(refused)
    response = render("failed.html", refused.status_code, title=title, problem={"detail": detail})
    response.headers.update(refused.headers or {})
    response.headers.update(HEADERS)
    return response
