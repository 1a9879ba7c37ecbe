"""Signing in with an operator key, and out."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from service.api.callers import log_refusal
from service.api.deps import RuntimeDep
from service.usecases import sessions
from service.web.page import SIGN_IN, PageRoute, go_to, render
from service.web.session import SignedInDep, drop_cookie, keep_cookie, name_cookie, require_own_form

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(SIGN_IN)
async def show_form(back: Annotated[str, Query(max_length=2000)] = "/") -> Response:
    """The form."""
    return render("sign_in.html", back=_keep_own_path(back), wrong="")


@router.post(SIGN_IN)
async def sign_in(request: Request, runtime: RuntimeDep) -> Response:
    """Begins a session, if the key is an operator's."""
    fields = await require_own_form(request)
    back = _keep_own_path(str(fields.get("back", "/")))
    try:
        key = str(fields.get("key", "")).strip()
        cookie, used = await sessions.sign_in(runtime.database, key)
    except sessions.SignInRefused as error:
        log_refusal(request, error.key, "session.refused", "no operator key in use")
        return render("sign_in.html", HTTPStatus.UNAUTHORIZED, back=back, wrong=str(error))
    runtime.counting.note_use(used.id, "")
    response = go_to(back)
    keep_cookie(response, request, cookie)
    return response


@router.post("/sign-out")
async def sign_out(request: Request, runtime: RuntimeDep, signed_in: SignedInDep) -> Response:
    """Ends this session."""
    await require_own_form(request)
    cookie = request.cookies[name_cookie(request.url)]
    await sessions.sign_out(runtime.database.engine, signed_in, cookie)
    response = go_to(SIGN_IN)
    drop_cookie(response, request)
    return response


def _keep_own_path(back: str) -> str:
    r"""The path after signing in, on this host: `//elsewhere` and `/\elsewhere` lead away."""
    has_control = any(ord(character) < 32 for character in back)
    leads_away = back.startswith(("//", "/\\"))
    if has_control or leads_away or not back.startswith("/"):
        return "/"
    return back
