"""Shows users a chat's summary, and leaves the chat alone or resumes it."""

from fastapi import APIRouter, Request

from service.api import dialog
from service.api.bodies import document_body, read_body
from service.api.deps import ChatId, FilterKey, OperatorDep, RuntimeDep
from service.api.wire import LeftAloneAnswer, LeftAloneRequest, ViewAnswer, ViewRequest
from service.usecases import left_alone
from service.usecases.left_alone import Requester

router = APIRouter(prefix="/v1/chats")


@router.post("/{chat_id}/view", tags=["filter"], openapi_extra=document_body(ViewRequest))
async def post_view(
    request: Request, chat_id: ChatId, key: FilterKey, runtime: RuntimeDep
) -> ViewAnswer:
    """Answers a click: what stands for the earlier part of a branch of the user's own chat.

    With `wait`, a newer summary is written first, unless the chat is left alone. 404 when the chat
    is not stored, or is not this user's.
    """
    body = await read_body(request, ViewRequest)
    asker = left_alone.make_requester(key.tenant, body.user_id)
    engine = runtime.database.engine
    asked = runtime.database, runtime.settings, asker, chat_id, body.message_id
    view = await left_alone.view_summary(*asked)
    if body.wait and not view.left_alone:
        await left_alone.resume_chat(engine, runtime.queue, asker, chat_id)
        await left_alone.wait_until_idle(engine, asker, chat_id, body.wait)
        view = await left_alone.view_summary(*asked)
    return dialog.make_dialog(body.button, view)


@router.post(
    "/{chat_id}/left-alone", tags=["filter"], openapi_extra=document_body(LeftAloneRequest)
)
async def post_left_alone(
    request: Request, chat_id: ChatId, key: FilterKey, runtime: RuntimeDep
) -> LeftAloneAnswer:
    """Leaves a user's own chat alone, or has it summarised again.

    404 when the chat is not stored, or is not this user's.
    """
    body = await read_body(request, LeftAloneRequest)
    asker = left_alone.make_requester(key.tenant, body.user_id)
    engine = runtime.database.engine
    if body.left_alone:
        await left_alone.leave_alone(engine, asker, chat_id)
    else:
        await left_alone.resume_chat(engine, runtime.queue, asker, chat_id)
    return LeftAloneAnswer(left_alone=body.left_alone)


@router.post("/{chat_id}/resume", tags=["operators"], status_code=202)
async def resume_chat(
    chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep
) -> LeftAloneAnswer:
    """Has a chat summarised again that its user wanted left alone."""
    engine, queue = runtime.database.engine, runtime.queue
    await left_alone.resume_chat(engine, queue, Requester(operator), chat_id)
    return LeftAloneAnswer(left_alone=False)
