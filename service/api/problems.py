"""Errors → application/problem+json (RFC 9457).

`type` is a stable URN that clients may switch on; `detail` says what, where and how to mend it.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from service import LEAST_FILTER
from service.errors import BadRequest, Problem, Unavailable, Unprocessable, trace
from service.storage import outage

_HEADERS = {
    HTTPStatus.UNAUTHORIZED.value: {"WWW-Authenticate": "Bearer"},
    # RFC 9110, 15.5.22 and 7.8: what to upgrade to, and that the field is for the next hop only.
    HTTPStatus.UPGRADE_REQUIRED.value: {
        "Upgrade": f"Precis-Filter/{LEAST_FILTER}",
        "Connection": "Upgrade",
    },
    HTTPStatus.SERVICE_UNAVAILABLE.value: {"Retry-After": "1"},
}

log = structlog.get_logger(__name__)


class ProblemBody(BaseModel):
    """A problem as clients see it."""

    type: str
    title: str
    status: int
    detail: str


def install(app: FastAPI) -> None:
    """Makes every error of `app` a problem."""

    @app.exception_handler(Problem)
    async def precis_problem(_: Request, problem: Problem) -> JSONResponse:
        return answer(problem)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return answer(from_validation(error.errors()))

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        title = HTTPStatus(error.status_code).phrase
        response = _json(
            error.status_code, title.lower().replace(" ", "-"), title, str(error.detail), {}
        )
        response.headers.update(error.headers or {})  # a 405 names the methods that are allowed
        return response

    @app.exception_handler(Exception)
    async def any_other(request: Request, error: Exception) -> JSONResponse:
        return answer(of(error, request.url.path))

    kinds: tuple[type[Exception], ...] = (SQLAlchemyError, *outage.AWAY)
    for kind in kinds:
        app.add_exception_handler(kind, any_other)


def of(error: Exception, path: str) -> Problem:
    """The problem that an error is. One that nobody expected is logged, and told without what it says."""
    if isinstance(error, Problem):
        return error
    if outage.is_away(error):
        log.warning("request.without_database", path=path, error=type(error).__name__)
        return Unavailable("the database does not answer; try again")
    log.error("request.failed", path=path, error=type(error).__name__, exception=trace(error))
    return Problem("the service failed on this request; its log says why")


def answer(problem: Problem) -> JSONResponse:
    """The response to a problem."""
    title = (type(problem).__doc__ or "").splitlines()[0]
    return _json(problem.status, problem.type, title, problem.detail, problem.extensions)


def from_validation(errors: Any) -> Problem:  # noqa: ANN401 - pydantic's own error list
    """A 400 for what is not JSON, a 422 for JSON of another shape, with a pointer to each place."""
    found = [{"pointer": _pointer(one["loc"]), "message": one["msg"]} for one in errors[:10]]
    detail = "; ".join(f"{one['pointer']}: {one['message']}" for one in found)[:1000]
    if any(str(one["type"]).startswith("json_") for one in errors):
        return BadRequest(f"the body is not valid JSON: {detail}")
    return Unprocessable(f"the request does not have the expected shape: {detail}", errors=found)


def from_pydantic(error: ValidationError) -> Problem:
    """The same for a model validated by hand."""
    return from_validation(
        error.errors(include_input=False, include_url=False, include_context=False)
    )


def from_msgspec(error: msgspec.DecodeError | UnicodeDecodeError, above: str = "") -> Problem:
    """The same for a body that msgspec refused, or for what stands at the pointer `above` in one.

    It names the first place only, as `$.path[0][1]`.
    """
    if not isinstance(error, msgspec.ValidationError):
        return BadRequest(f"the body is not valid JSON: {error}")
    what, _, where = str(error).partition(" - at `$")
    pointer = above + re.sub(r"[.\[]", "/", where.rstrip("`").replace("]", ""))[:200]
    what = what[:1000]
    errors = [{"pointer": pointer, "message": what}]
    return Unprocessable(
        f"the request does not have the expected shape: {pointer}: {what}", errors=errors
    )


def _pointer(place: Sequence[object]) -> str:
    """Bounded, because the name of an unknown field is part of it."""
    return ("/" + "/".join(str(part) for part in place if part != "body"))[:200]


def _json(
    status: int, kind: str, title: str, detail: str, extensions: dict[str, object]
) -> JSONResponse:
    body = {
        "type": f"urn:precis:problem:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        **extensions,
    }
    return JSONResponse(body, status, _HEADERS.get(status), media_type="application/problem+json")
