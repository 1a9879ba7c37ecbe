"""What the filter asks: the context of a request, and to take a transcript."""

import re
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from service import context, serving
from service.api import problems
from service.api.deps import (
    FilterKey,
    RuntimeDep,
    caller,
    documented,
    read_body,
    read_bytes,
    runtime_of,
    schema_of,
)
from service.api.wire import ContextAnswer, ContextRequest, Id, Tokens, TranscriptAnswer, TranscriptRequest
from service.errors import TooLarge, Unprocessable
from service.handover import Handed, HandOver, hand_over

router = APIRouter(prefix="/v1/chats/{chat_id}", tags=["filter"])

_CONTROL = re.compile(r"[\x00-\x1f]")
_DECODE = msgspec.json.Decoder(ContextRequest).decode
_ENCODE = msgspec.json.Encoder().encode

ChatId = Annotated[Id, Path(description="Open WebUI's chat id.")]


@router.post(
    "/context",
    response_model=None,
    openapi_extra=documented(ContextRequest),
    responses={200: {"content": {"application/json": {"schema": schema_of(ContextAnswer)}}}},
)
async def post_context(request: Request, chat_id: ChatId) -> Response:
    """The stored summary for a request, and the boundary from which the messages are sent verbatim.

    One indexed read; no LLM is asked. `ready` carries a summary, `not_needed` says that the request is small enough,
    `pending` that a summary is not there yet, `unknown` that no message of the path is stored.
    """
    # Called, not depended on: resolving two dependencies takes FastAPI longer than the read takes us.
    key, runtime = await caller(request, "filter"), runtime_of(request)
    body = _question(await read_bytes(request, runtime.settings.max_body_bytes), runtime.settings.max_path)
    asked = context.Asked(key.tenant, chat_id, body.window_tokens, serving.Asked(body.depth, body.path), body.sizes)
    answer = await context.answer(runtime.database.reads, asked, runtime.settings)
    return Response(_ENCODE(_context(answer)), media_type="application/json")


def _question(body: bytes, most: int) -> ContextRequest:
    try:
        asked = _DECODE(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise problems.from_msgspec(error) from None
    if len(asked.path) > most:
        raise TooLarge(f"the path has {len(asked.path)} messages, at most {most} are taken")
    if asked.depth < len(asked.path):
        raise Unprocessable(f"depth is {asked.depth}, but the path shows {len(asked.path)} messages", pointer="/depth")
    if len({identity for identity, _ in asked.path}) < len(asked.path):
        raise Unprocessable("the path has the same message twice: a path has no cycle", pointer="/path")
    # JSON has control characters as escapes only, so most bodies need not be searched for them.
    if b"\\" in body and any(_CONTROL.search(part) for pair in asked.path for part in pair):
        raise Unprocessable("an id or a digest has a control character", pointer="/path")
    return asked


@router.put("/transcript", status_code=202, openapi_extra=documented(TranscriptRequest))
async def put_transcript(request: Request, chat_id: ChatId, key: FilterKey, runtime: RuntimeDep) -> TranscriptAnswer:
    """Takes the new messages of a path; work becomes due in the same transaction. Idempotent.

    `409` when `after` is not stored: send the whole path.
    """
    body = await read_body(request, TranscriptRequest, runtime.settings.max_body_bytes)
    if len(body.messages) > runtime.settings.max_path:
        raise TooLarge(f"{len(body.messages)} messages, at most {runtime.settings.max_path} are taken at once")
    settings = runtime.settings
    handed = HandOver(
        tenant=key.tenant,
        chat=chat_id,
        user=body.user_id,
        model=body.model,
        policy=settings.policy(body.window_tokens or settings.window),
        after=body.after,
        messages=[
            Handed(
                one.id,
                one.fingerprint,
                one.digest,
                one.model_dump(exclude={"fingerprint", "digest"}, exclude_none=True),
            )
            for one in body.messages
        ],
        served=body.served,
    )
    accepted = await hand_over(runtime.database.engine, handed, settings.debounce)
    if accepted.ring:
        await runtime.doorbell.ring(accepted.ring, settings.debounce)
    return TranscriptAnswer(due=accepted.due)


def _context(answer: context.Answer) -> ContextAnswer:
    made = answer.checkpoint
    return ContextAnswer(
        status=answer.status,
        known=answer.known,
        checkpoint_id=made.id if made else None,
        covered_until=made.until if made else None,
        covered_digest=made.digest if made else None,
        covered_messages=made.messages if made else None,
        summary=answer.summary or None,
        tokens=Tokens(before=answer.before, after=answer.after) if answer.known else None,
    )
