"""The filter's routes: new messages of a path, and who answers, for `precis install-filter`."""

import json
from typing import cast

import msgspec
import structlog
from fastapi import APIRouter, Request, Response

from service import __version__
from service.api import problems
from service.api.deps import (
    MOST_MESSAGES,
    ChatId,
    FilterKey,
    RuntimeDep,
    documented,
    read_bytes,
    worked,
)
from service.api.wire import FilterAnswer, TranscriptAnswer, TranscriptRequest, schema_of
from service.errors import BadRequest, TooLarge, Unprocessable
from service.planning import policy
from service.processes.intake import Head
from service.runtime import Runtime
from service.settings import Settings
from service.storage import chats
from service.storage.sums import Share
from service.usecases.ingest import Accepted, Handed, Transcript, ingest
from service.usecases.turns import Turns, Whose

_DECODE = msgspec.json.Decoder(TranscriptRequest).decode
_DECODE_HEAD = msgspec.json.Decoder(Head).decode

router = APIRouter(tags=["filter"])
log = structlog.get_logger(__name__)


@router.get("/v1/filter")
async def get_filter(key: FilterKey, runtime: RuntimeDep) -> FilterAnswer:
    """Who answers: the service's version, and the key's tenant.

    `crowded` lists the models in use whose tools leave little of the window for the chat, `assumed`
    those whose window nobody told.
    """
    async with runtime.database.engine.connect() as connection:
        served = await chats.served_models(connection, key.tenant)
    return FilterAnswer(
        version=__version__,
        tenant=key.tenant_name,
        crowded=[one for one in served if policy.is_crowded(one.window, one.overhead)],
        assumed=[one for one in served if one.assumed],
    )


@router.put(
    "/v1/chats/{chat_id}/transcript",
    status_code=202,
    response_model=None,
    openapi_extra=documented(TranscriptRequest),
    responses={202: {"content": {"application/json": {"schema": schema_of(TranscriptAnswer)}}}},
)
async def put_transcript(
    request: Request, chat_id: ChatId, key: FilterKey, runtime: RuntimeDep
) -> Response:
    """Stores the new messages of a path, and makes work due in the same transaction. Idempotent.

    A path is questions and answers, root to leaf; an answer is one message, with all calls of tools
    that it took. By its `digest` each is found again.

    `409` when `after` is not stored: send the whole path, with `after` null. One upload of a user
    is worked on at a time; `429` when too many of them wait.
    """
    try:
        accepted = await _ingested(request, key.tenant, chat_id, runtime)
    except (BadRequest, TooLarge, Unprocessable) as error:
        log.info("ingest.refused", chat=chat_id, problem=error.type)
        raise
    if accepted.wake_up:
        # Woken after the commit: a worker that comes earlier would find no work.
        await runtime.queue.wake(accepted.wake_up, accepted.delay)
    answer = msgspec.json.encode(TranscriptAnswer(accepted.due))
    return Response(answer, 202, media_type="application/json")


async def _ingested(request: Request, tenant: int, chat: str, runtime: Runtime) -> Accepted:
    """Reads the body, and stores it when it is its user's turn."""
    settings = runtime.settings
    whole = await read_bytes(request)
    body, messages = await worked(whole, _decoded, whole, MOST_MESSAGES)
    transcript = _transcript(tenant, chat, body, messages, settings)
    turns = cast(Turns, request.app.state.turns)
    async with turns.turn(Whose(tenant, body.user_id), len(whole)):
        accepted = await ingest(runtime.database, runtime.texts, transcript)
    if body.outcome:
        share = Share(tenant, chat, body.user_id, body.model)
        runtime.counting.turn_ended(share, body.outcome)
    return accepted


def _transcript(
    tenant: int,
    chat: str,
    body: TranscriptRequest,
    messages: list[Handed],
    settings: Settings,
) -> Transcript:
    """The request as the use case takes it."""
    window = policy.believed(body.windows)
    return Transcript(
        tenant=tenant,
        chat=chat,
        user=body.user_id,
        model=body.model,
        policy=settings.policy(body.model, window),
        after=body.after,
        messages=messages,
        served=body.served,
        window_assumed=window is None and settings.of_model(body.model).window is None,
        beside=body.beside,
        expires_in=body.expires_in,
        compactor=body.compactor,
        title=body.title,
        user_name=body.user_name,
        anyone=settings.share_forks == "tenant",
        mask_secrets=settings.mask_secrets,
    )


def _decoded(body: bytearray, most: int) -> tuple[TranscriptRequest, list[Handed]]:
    """The request and the head of each message; the rest of a message stays bytes."""
    try:
        request = _request(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise problems.from_msgspec(error) from None
    if len(request.messages) > most:
        raise TooLarge(
            f"the request has {len(request.messages)} messages, and {most} are accepted; send the"
            " path in parts"
        )
    return request, [_handed(place, text) for place, text in enumerate(request.messages)]


def _request(body: bytearray) -> TranscriptRequest:
    try:
        return _DECODE(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Python writes NaN and Infinity, which are not JSON, and plugins of Open WebUI may have
        # stored some.
        if b"NaN" not in body and b"Infinity" not in body:
            raise
        return _DECODE(_without_nan(body))


def _without_nan(body: bytearray) -> bytes:
    """Python's dialect of JSON as JSON, with null for NaN; other broken JSON unchanged."""
    try:
        return msgspec.json.encode(json.loads(body))
    except ValueError:
        return bytes(body)


def _handed(place: int, text: msgspec.Raw) -> Handed:
    try:
        head = _DECODE_HEAD(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise problems.from_msgspec(error, above=f"/messages/{place}") from None
    return Handed(head.id, head.fingerprint, head.digest, text)
