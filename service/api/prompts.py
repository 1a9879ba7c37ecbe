"""Prompts for a host's own models, and their replies."""

import asyncio

import msgspec
from fastapi import APIRouter, Request
from httpx import codes

from service import metrics
from service.api.bodies import document_body, read_body
from service.api.deps import FilterKey, RuntimeDep
from service.api.wire import NextPromptAnswer, NextPromptRequest, PromptToAnswer, ReplyRequest
from service.clients.answers import ABOUT_THE_REQUEST
from service.storage import codec
from service.usecases.prompts import accept_reply, take_next

router = APIRouter(prefix="/v1/prompts", tags=["filter"])


@router.post(
    "/next",
    response_model_exclude_unset=True,
    openapi_extra=document_body(NextPromptRequest, example={"chat": "chat-1"}),
)
async def post_next(request: Request, key: FilterKey, runtime: RuntimeDep) -> NextPromptAnswer:
    """Takes the next prompt of a chat, for one of your own models.

    Ask after a turn whose answer has `asks`, and after each reply, as long as the answer has
    `again`. Each prompt is given once. Ask its model in the background, with the rights of the
    chat's user, and send what it answers as it came.
    """
    body = await read_body(request, NextPromptRequest)
    limit = runtime.settings.summariser_timeout
    found = await take_next(runtime.database, key.tenant, body.chat, body.wait, limit)
    if found.prompt is None:
        return NextPromptAnswer(prompt=None, again=found.again)
    form = await asyncio.to_thread(codec.unpack, found.prompt.form)
    prompt = PromptToAnswer(id=found.prompt.id, seconds=limit, form=form)
    return NextPromptAnswer(prompt=prompt, again=True)


@router.post("/{prompt_id}/reply", status_code=202, openapi_extra=document_body(ReplyRequest))
async def post_reply(prompt_id: str, request: Request, key: FilterKey, runtime: RuntimeDep) -> None:
    """Hands in what a model answered to a prompt, also an error: then code writes.

    `404`: no such prompt waits for a reply any more; nothing is to be done.
    """
    reply = await read_body(request, ReplyRequest)
    fields = msgspec.structs.asdict(reply)
    packed = await asyncio.to_thread(codec.pack, fields)
    database, queue = runtime.database, runtime.queue
    seconds = await accept_reply(database, queue, key.tenant, prompt_id, packed)
    outcome = _parse_outcome(reply.status)
    metrics.SUMMARISER_CALLS.labels(outcome).observe(seconds)


def _parse_outcome(status: int) -> str:
    if status == codes.OK:
        return "answered"
    return "failed" if status in ABOUT_THE_REQUEST else "away"
