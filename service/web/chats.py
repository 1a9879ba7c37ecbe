"""The list of chats, and one chat with its branches and actions."""

from typing import Annotated, Final, Literal, get_args
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Query, Response

from service.api import problems
from service.api.chats import CheckpointNumber
from service.api.deps import ChatId, RuntimeDep
from service.api.wire import Id
from service.names import FIRST_TENANT, ChatState, Has
from service.planning import policy
from service.storage.chats import ChatFilters
from service.usecases import inspection, left_alone, operate
from service.usecases.left_alone import Requester
from service.web.page import PageRoute, go_to, render
from service.web.session import FormDep, SignedInDep
from service.web.words import segment

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_SHOWN: Final = 50


@router.get("/chats")
async def list_chats(
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    begins: Annotated[Id | Literal[""], Query()] = "",
    user: Annotated[Id | Literal[""], Query()] = "",
    model: Annotated[Id | Literal[""], Query()] = "",
    state: Annotated[ChatState | Literal[""], Query()] = "",
    has: Annotated[Has | Literal[""], Query()] = "",
    cursor: Annotated[str, Query(pattern=inspection.CURSOR)] = "",
    part: Annotated[bool, Query()] = False,
) -> Response:
    """The list; an empty filter is none, because a form sends all of its fields."""
    which = ChatFilters(user or None, model or None, state or None, begins or None, has or None)
    page = await inspection.list_chats(
        runtime.database.engine, signed_in.by.tenant, _SHOWN, cursor, which
    )
    chosen = {"begins": begins, "user": user, "model": model, "state": state, "has": has}
    return render(
        "chats_part.html" if part else "chats.html",
        who=signed_in,
        place="/chats",
        chats=page.chats,
        chosen=chosen,
        states=get_args(ChatState),
        here=_make_address(chosen | {"cursor": cursor}),
        next=_make_address(chosen | {"cursor": page.next}) if page.next else "",
    )


def _make_address(fields: dict[str, str]) -> str:
    return "/chats?" + urlencode({name: value for name, value in fields.items() if value})


@router.get("/chats/{chat_id}")
async def show_chat(
    chat_id: ChatId,
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    done: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    """One chat."""
    engine, tenant = runtime.database.engine, signed_in.by.tenant
    detail = await inspection.show_chat(engine, tenant, chat_id)
    chat = detail.chat
    crowded = policy.is_crowded(chat.window_tokens, chat.overhead_tokens)
    # Only for chats of that Open WebUI; it does not store those that expire.
    webui = runtime.settings.openwebui_url if signed_in.tenant_name == FIRST_TENANT else ""
    return render(
        "chat.html",
        who=signed_in,
        place="/chats",
        detail=detail,
        chat=chat,
        covers={one.id: one.covered_messages for one in detail.checkpoints},
        crowding=policy.describe_crowding(chat.window_tokens, chat.overhead_tokens)
        if crowded
        else "",
        webui="" if chat.expires_at else webui.rstrip("/"),
        done=_DONE.get(done, ""),
    )


_DONE: Final = {
    "retried": "The work is due now.",
    "resumed": "This chat is summarised again.",
    "reset": "The checkpoints are deleted, and the chat is summarised again.",
    "served": "This checkpoint serves; deeper ones, if there are any, are written again.",
}
"""The result of each action, by its name in the address that the browser is sent to."""


@router.post("/chats/{chat_id}/retry")
async def retry(
    chat_id: ChatId, signed_in: SignedInDep, runtime: RuntimeDep, _: FormDep
) -> Response:
    """Makes the chat's work due now."""
    await operate.retry(runtime.database.engine, runtime.queue, signed_in.by, chat_id)
    return _go_to_chat(chat_id, "retried")


@router.post("/chats/{chat_id}/reset")
async def reset(
    chat_id: ChatId, signed_in: SignedInDep, runtime: RuntimeDep, form: FormDep
) -> Response:
    """Deletes all checkpoints but `keep` and those it grew from, and makes new ones."""
    keep = None
    if "keep" in form:
        # A value that is no number must not count as none: that would delete all checkpoints.
        try:
            keep = msgspec.convert(form["keep"], CheckpointNumber, strict=False)
        except msgspec.ValidationError as error:
            raise problems.make_body_problem(error, above="/keep") from None
    await operate.reset_chat(runtime.database.engine, runtime.queue, signed_in.by, chat_id, keep)
    return _go_to_chat(chat_id, "reset")


@router.post("/chats/{chat_id}/delete")
async def delete_chat(
    chat_id: ChatId, signed_in: SignedInDep, runtime: RuntimeDep, _: FormDep
) -> Response:
    """Deletes everything stored for the chat."""
    await operate.delete_chat(runtime.database.slow, signed_in.by, chat_id)
    return go_to("/chats")


@router.post("/chats/{chat_id}/resume")
async def resume(
    chat_id: ChatId, signed_in: SignedInDep, runtime: RuntimeDep, _: FormDep
) -> Response:
    """Summarises a chat again that was left alone."""
    engine, queue = runtime.database.engine, runtime.queue
    await left_alone.resume_chat(engine, queue, Requester(signed_in.by), chat_id)
    return _go_to_chat(chat_id, "resumed")


def _go_to_chat(chat_id: str, done: str) -> Response:
    return go_to(f"/chats/{segment(chat_id)}?done={done}")
