"""Errors → application/problem+json (RFC 9457).

`type` is a stable URN that clients may switch on; `detail` says what is wrong, where, and how to
fix it.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast

import msgspec
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from service import LEAST_FILTER, request_ids
from service.errors import (
    BadRequest,
    Problem,
    ProblemType,
    Unavailable,
    Unprocessable,
    format_trace,
)
from service.storage import database

_HEADERS = {
    HTTPStatus.UNAUTHORIZED.value: {"WWW-Authenticate": "Bearer"},
    # Whoever sends too slowly would hold the connection with what is left of the body.
    HTTPStatus.REQUEST_TIMEOUT.value: {"Connection": "close"},
    # RFC 9110, 15.5.22 and 7.8: what to upgrade to, and that the field is for the next hop only.
    HTTPStatus.UPGRADE_REQUIRED.value: {
        "Upgrade": f"Precis-Filter/{LEAST_FILTER}",
        "Connection": "Upgrade",
    },
    HTTPStatus.SERVICE_UNAVAILABLE.value: {"Retry-After": "1"},
}

_TYPES = [kind.value for kind in ProblemType]

_SENTENCES = {
    HTTPStatus.NOT_FOUND.value: "there is nothing at this address; `/docs` lists the routes",
    HTTPStatus.METHOD_NOT_ALLOWED.value: "this address takes another method; `/docs` names it",
}

FAILED = "the service failed on this request; look for this `request_id` in its log"

# Characters; the name of an unknown field, which may be long, is part of a pointer.
_POINTER = 200

log = structlog.get_logger(__name__)


class ProblemBody(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = Field(
        description="`urn:precis:problem:` and one of: "
        + ", ".join(f"`{word}` ({status})" for word, status, _ in _TYPES)
    )
    title: str
    status: int
    detail: str
    request_id: str | None = None


def install_handlers(app: FastAPI) -> None:
    """Makes every error of `app` a problem."""
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, answer_http_error)
    # Starlette raises an `Exception` again after its handler, for the server's log; the kinds
    # that are expected while the database is down have to be named to be answered only.
    for kind in (Problem, SQLAlchemyError, *database.AWAY, Exception):
        app.add_exception_handler(kind, answer_error)


async def _answer_invalid(_: Request, error: Exception) -> JSONResponse:
    return make_response(make_validation_problem(cast(RequestValidationError, error).errors()))


async def answer_http_error(_: Request, error: Exception) -> JSONResponse:
    """Starlette's own refusals, such as 404 for an unknown path and 405 for a method."""
    refused = cast(HTTPException, error)
    title = HTTPStatus(refused.status_code).phrase
    kind = title.lower().replace(" ", "-")
    response = _make_json_response(refused.status_code, kind, title, explain_refusal(refused), {})
    # A 405 names the methods that are allowed in a header.
    response.headers.update(refused.headers or {})
    return response


def explain_refusal(refused: HTTPException) -> str:
    """Why Starlette refuses a request; by itself it gives only the name of the status."""
    return _SENTENCES.get(refused.status_code, str(refused.detail))


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """The response to what is no error of FastAPI's."""
    return make_response(make_problem(error, request.url.path))


def make_problem(error: Exception, path: str) -> Problem:
    """The problem to answer for an error.

    An unexpected one is logged with its trace; the client gets none of its words, which may quote a
    chat.
    """
    if isinstance(error, Problem):
        return error
    if database.is_away(error):
        refusal = database.explain_refusal(error)
        why = refusal or "the database does not answer"
        log.warning("request.without_database", path=path, why=why, error=type(error).__name__)
        return Unavailable(f"{why}; try again {'later' if refusal else 'in a moment'}")
    log.error(
        "request.failed", path=path, error=type(error).__name__, exception=format_trace(error)
    )
    return Problem(FAILED)


def make_response(problem: Problem) -> JSONResponse:
    """The response to a problem."""
    response = _make_json_response(
        problem.status, problem.type, problem.title, problem.detail, problem.extensions
    )
    response.headers.update(make_headers(problem))
    return response


def make_headers(problem: Problem) -> dict[str, str]:
    """The headers of the response to a problem."""
    if wait := problem.extensions.get("retry_after"):
        return {"Retry-After": str(wait)}
    return _HEADERS.get(problem.status, {})


def make_validation_problem(errors: Any) -> Problem:  # noqa: ANN401 - pydantic's own error list
    """A 422 for an address of another shape, with a pointer to each place."""
    found, sentences = [], []
    for one in errors:
        pointer, message = _make_pointer(one["loc"]), one["msg"]
        found.append({"pointer": pointer, "message": message})
        sentences.append(f"{pointer}: {message}")
    detail = "; ".join(sentences)[:1000]
    return Unprocessable(f"the request does not have the expected shape: {detail}", errors=found)


def make_body_problem(error: msgspec.DecodeError | UnicodeDecodeError, above: str = "") -> Problem:
    """A 400 for a body that is not JSON, a 422 for JSON of another shape.

    msgspec names the first wrong place only, as `$.path[0][1]`. `above` is a pointer to the part
    that was decoded, if it was not the whole body.
    """
    if not isinstance(error, msgspec.ValidationError):
        return BadRequest(f"the body is not valid JSON: {error}")
    what, _, where = str(error).partition(" - at `$")
    # `$.path[0][1]` is `/path/0/1` as a JSON pointer.
    place = re.sub(r"[.\[]", "/", where.rstrip("`").replace("]", ""))
    pointer = above + place[:_POINTER]
    # The name of an unknown field, which the client chose, is part of the message.
    what = what[:1000]
    errors = [{"pointer": pointer, "message": what}]
    told = f"{pointer}: {what}" if pointer else what
    return Unprocessable(f"the request does not have the expected shape: {told}", errors=errors)


def _make_pointer(place: Sequence[object]) -> str:
    return ("/" + "/".join(map(str, place)))[:_POINTER]


def _make_json_response(
    status: int, kind: str, title: str, detail: str, extensions: dict[str, object]
) -> JSONResponse:
    body = {
        "type": f"urn:precis:problem:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        # The lines of the log that tell more have this id too.
        "request_id": request_ids.get_current(),
        **extensions,
    }
    return JSONResponse(body, status, media_type="application/problem+json")
