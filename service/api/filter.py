"""What the filter hands over, the transcript of a path; and who answers it, for the installer's round trip."""

from fastapi import APIRouter, Request

from service import LEAST_FILTER, __version__
from service.api.deps import ChatId, FilterKey, RuntimeDep, documented, read_body
from service.api.wire import FilterAnswer, TranscriptAnswer, TranscriptRequest
from service.errors import TooLarge
from service.handover import Handed, HandOver, hand_over

router = APIRouter(tags=["filter"])


@router.get("/v1/filter")
async def get_filter(key: FilterKey) -> FilterAnswer:
    """Who answers the filter: the service's version, the key's tenant, and the oldest filter that is taken."""
    return FilterAnswer(version=__version__, tenant=key.tenant_name, least_filter=LEAST_FILTER)


@router.put("/v1/chats/{chat_id}/transcript", status_code=202, openapi_extra=documented(TranscriptRequest))
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
        overhead=body.overhead or 0,
        expires_in=body.expires_in,
        compactor=body.compactor,
        anyone=settings.share_forks == "tenant",
        mask_secrets=settings.mask_secrets,
    )
    accepted = await hand_over(runtime.database.engine, handed, settings.debounce)
    if accepted.ring:
        await runtime.doorbell.ring(accepted.ring, settings.debounce)
    return TranscriptAnswer(due=accepted.due)
