"""The list of chats, and one chat with its branches and actions."""

from typing import Annotated, Final, get_args

import msgspec
from fastapi import APIRouter, Query, Response

from service.api import problems
from service.api.chats import CheckpointNumber
from service.api.deps import ChatId, RuntimeDep
from service.api.queries import ChatParameters
from service.names import FIRST_TENANT, ChatState
from service.usecases import inspection, left_alone, operate
from service.usecases.left_alone import Requester
from service.web.page import PageRoute, go_to, make_address, render
from service.web.session import FormDep, SignedInDep
from service.web.words import segment

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class _Parameters(ChatParameters):
    part: bool = False


@router.get("/chats")
async def list_chats(
    signed_in: SignedInDep, runtime: RuntimeDep, query: Annotated[_Parameters, Query()]
) -> Response:
    """The list; with `part`, only the part of it that is renewed."""
    engine, tenant = runtime.database.engine, signed_in.by.tenant
    page = await inspection.list_chats(engine, tenant, query.limit, query.cursor, query.filters)
    return render(
        "chats_part.html" if query.part else "chats.html",
        who=signed_in,
        place="/chats",
        chats=page.chats,
        chosen=query,
        states=get_args(ChatState),
        here=make_address("/chats", query, query.cursor),
        next=make_address("/chats", query, page.next) if page.next else "",
    )


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
    # Only for chats of that Open WebUI; it does not store those that expire.
    webui = runtime.settings.openwebui_url if signed_in.tenant_name == FIRST_TENANT else ""
    return render(
        "chat.html",
        who=signed_in,
        place="/chats",
        detail=detail,
        chat=chat,
        covers={one.id: one.covered_messages for one in detail.checkpoints},
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
