"""What a user sees of a chat's summary and wants of it, through the filter's key; and operators."""

from typing import Annotated, TypeVar

import msgspec
from fastapi import APIRouter, Path, Request

from service.api import problems
from service.api.deps import (
    ChatId,
    FilterKey,
    OperatorDep,
    RuntimeDep,
    documented,
    read_bytes,
)
from service.api.wire import ViewAnswer, ViewRequest, WantedAnswer, WishesAnswer, WishRequest
from service.errors import TooLarge, Unprocessable
from service.runtime import Runtime
from service.usecases import wishes
from service.usecases.wishes import Asker, Changed

_VIEW = msgspec.json.Decoder(ViewRequest)
_WISH = msgspec.json.Decoder(WishRequest)

Body = TypeVar("Body")

router = APIRouter(prefix="/v1/chats")


@router.post("/{chat_id}/view", tags=["filter"], openapi_extra=documented(ViewRequest))
async def post_view(
    request: Request, chat_id: ChatId, key: FilterKey, runtime: RuntimeDep
) -> ViewAnswer:
    """Shows a user what stands for the earlier part of a branch of their own chat.

    404 when the chat is not stored, or is not this user's.
    """
    body = _decoded(_VIEW, await read_bytes(request))
    most = runtime.settings.max_path
    if len(body.path) > most:
        raise TooLarge(
            f"the path has {len(body.path)} messages, and {most} are accepted; send the newest of"
            " them, or raise PRECIS_MAX_PATH"
        )
    seen = await wishes.view(
        runtime.database,
        runtime.settings,
        wishes.of_user(key.tenant, body.user_id),
        chat_id,
        body.path,
        max(body.depth, len(body.path)),
    )
    found, made = seen.decision, seen.decision.checkpoint
    return ViewAnswer(
        left_alone=seen.wanted.left_alone_at is not None,
        wishes=list(seen.wanted.wishes),
        status=found.status,
        summary=found.summary,
        covered_messages=made.messages if made else 0,
        covered_until=made.until if made else None,
        before=found.before,
        after=found.after,
        working=seen.wanted.working,
    )


@router.post("/{chat_id}/wishes", tags=["filter"], openapi_extra=documented(WishRequest))
async def post_wish(
    request: Request, chat_id: ChatId, key: FilterKey, runtime: RuntimeDep
) -> WishesAnswer:
    """Leaves a user's chat alone or summarises it again, or changes what its summaries keep.

    404 when the chat is not stored, or is not this user's.
    """
    body = _decoded(_WISH, await read_bytes(request))
    changed = await _wished(runtime, wishes.of_user(key.tenant, body.user_id), chat_id, body)
    await _wake(runtime, changed)
    return WishesAnswer(left_alone=changed.left_alone, wishes=list(changed.wishes))


@router.get("/{chat_id}/wishes", tags=["operators"])
async def read_wishes(chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep) -> WishesAnswer:
    """Shows what a user wants of a chat, in the user's words; the audit log notes who reads it."""
    wanted = await wishes.read(runtime.database.engine, operator, chat_id)
    return WishesAnswer(left_alone=wanted.left_alone_at is not None, wishes=list(wanted.wishes))


@router.post("/{chat_id}/resume", tags=["operators"], status_code=202)
async def resume(chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep) -> WantedAnswer:
    """Summarises a chat again that its user wanted left alone."""
    changed = await wishes.resume(runtime.database.engine, Asker(operator), chat_id)
    return await _answer(runtime, changed)


@router.delete("/{chat_id}/wishes/{place}", tags=["operators"])
async def withdraw(
    chat_id: ChatId,
    place: Annotated[int, Path(ge=1, le=1000, description="Place of the sentence, from 1.")],
    operator: OperatorDep,
    runtime: RuntimeDep,
) -> WantedAnswer:
    """Withdraws a sentence that a user wanted in the chat's summaries."""
    changed = await wishes.withdraw(runtime.database.engine, Asker(operator), chat_id, place)
    return await _answer(runtime, changed)


def _decoded(decoder: "msgspec.json.Decoder[Body]", body: bytearray) -> Body:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise problems.from_msgspec(error) from None


async def _wished(runtime: Runtime, asker: Asker, chat: str, body: WishRequest) -> Changed:
    engine = runtime.database.engine
    match body:
        case WishRequest(left_alone=bool(alone), focus=None, withdraw=None):
            change = wishes.leave_alone if alone else wishes.resume
            return await change(engine, asker, chat)
        case WishRequest(left_alone=None, focus=str(sentence), withdraw=None):
            mask = runtime.settings.mask_secrets
            return await wishes.focus(engine, asker, chat, sentence, mask=mask)
        case WishRequest(left_alone=None, focus=None, withdraw=int(place)):
            return await wishes.withdraw(engine, asker, chat, place)
    raise Unprocessable("give exactly one of `left_alone`, `focus` and `withdraw`")


async def _answer(runtime: Runtime, changed: Changed) -> WantedAnswer:
    await _wake(runtime, changed)
    return WantedAnswer(left_alone=changed.left_alone, wish_count=len(changed.wishes))


async def _wake(runtime: Runtime, changed: Changed) -> None:
    # After the commit: a worker that comes earlier would find no work.
    if changed.wake_up:
        await runtime.queue.wake(changed.wake_up)
