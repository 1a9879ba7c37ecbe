"""Finds who is signed in, and checks that a form was sent by one of our own pages."""

from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import Depends, Request, Response
from starlette.datastructures import URL, FormData

from service.api.bodies import read_limited
from service.api.deps import RuntimeDep
from service.errors import BadRequest, Problem, ProblemType
from service.usecases import sessions
from service.usecases.sessions import SECONDS, Session
from service.web.page import SignInNeeded

_FORM: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 5000


def name_cookie(url: URL) -> str:
    """The session's cookie; on HTTPS, browsers guard the prefix `__Host-`."""
    return "__Host-precis" if url.scheme == "https" else "precis"


def keep_cookie(response: Response, request: Request, cookie: str) -> None:
    """Gives the browser the cookie of a session."""
    is_secure = request.url.scheme == "https"
    response.set_cookie(
        name_cookie(request.url),
        cookie,
        max_age=SECONDS,
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )


def drop_cookie(response: Response, request: Request) -> None:
    """Tells the browser to delete the cookie of a session."""
    # Browsers find it by its name and path, and one with `__Host-` has to be secure.
    response.delete_cookie(name_cookie(request.url), secure=request.url.scheme == "https")


async def _require_session(request: Request, runtime: RuntimeDep) -> Session:
    cookie = request.cookies.get(name_cookie(request.url), "")
    if not cookie:
        raise SignInNeeded
    session = await sessions.find_session(runtime.database.engine, cookie)
    if session is None:
        raise SignInNeeded
    return session


SignedInDep = Annotated[Session, Depends(_require_session)]


async def require_own_form(request: Request) -> FormData:
    """Reads a form that a page of this service sent; it does not look at the scope of the key.

    Raises:
        Problem: FORBIDDEN: the form came from another site.
        BadRequest: the body is no form.
    """
    _check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise BadRequest(f"send a form as {_FORM}")
    body = await read_limited(request)
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise BadRequest("the form is not UTF-8, or has too many fields") from None
    # Browsers end lines with CR LF, whatever the text had.
    return FormData([(name, value.replace("\r\n", "\n")) for name, value in fields])


def _check_origin(request: Request) -> None:
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    here = f"{request.url.scheme}://{request.url.netloc}"
    # Browsers since 2023 send the first on every request; older ones the second with a form.
    from_here = site in ("same-origin", "none") if site else origin == here
    if not from_here:
        raise Problem(
            "this form was not sent by a page of this service; open it again here",
            ProblemType.FORBIDDEN,
        )


async def _read_form(request: Request, signed_in: SignedInDep) -> FormData:
    form = await require_own_form(request)
    if not signed_in.may_change:
        raise Problem(
            "this key is read-only; sign in with an `operator` key",
            ProblemType.WRONG_SCOPE,
        )
    return form


FormDep = Annotated[FormData, Depends(_read_form)]
"""A form that changes something."""
