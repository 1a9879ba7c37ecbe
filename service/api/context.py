"""The hot route, for which every user waits: `POST /v1/chats/{chat_id}/context`."""

import re
from time import perf_counter

import msgspec
from fastapi import APIRouter
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from service import metrics
from service.api import problems
from service.api.deps import MOST_MESSAGES, ChatId, FilterKey, RuntimeDep, documented, read_bytes
from service.api.wire import ContextRequest, schema_of
from service.errors import TooLarge, Unprocessable
from service.planning import policy
from service.processes.intake import CONTROL
from service.request import edit
from service.settings import Settings
from service.storage.contexts import Lookup
from service.storage.sums import Share
from service.usecases import context
from service.usecases.context import ContextAnswer

_CONTROL = re.compile(f"[{CONTROL}]")
_DECODE = msgspec.json.Decoder(ContextRequest).decode
_ENCODE = msgspec.json.Encoder().encode

router = APIRouter(tags=["filter"])


@router.post(
    "/v1/chats/{chat_id}/context",
    response_model=None,
    openapi_extra=documented(ContextRequest),
    responses={200: {"content": {"application/json": {"schema": schema_of(ContextAnswer)}}}},
)
async def post_context(
    request: Request, chat_id: ChatId, key: FilterKey, runtime: RuntimeDep
) -> Response:
    """The stored summary for a request, and the boundary after which messages are sent verbatim.

    One indexed read; no LLM is asked. `status` is `ready` with a summary, `not_needed` when the
    request is small enough, `pending` when the summary is not written yet, and `unknown` when no
    message of the path is stored. A fork, a clone or an import that is not stored is answered from
    the summaries of the user's other chats; `known` is null then.

    `ready` says how to `edit` the request that `native` describes; without `native`, put `insert`
    in place of the first `covered_messages` of your path. A summary comes as two messages: a record
    with the role `user`, and what the assistant answers to it. Ids and digests are those of `PUT
    transcript`.
    """
    body = _question(await read_bytes(request), MOST_MESSAGES)
    lookup = _lookup(key.tenant, chat_id, body, runtime.settings)
    if body.wait:
        await context.written(runtime.database, lookup, body.wait)
    began = perf_counter()
    answer = await context.answer(runtime.database, lookup, body.native)
    seconds = perf_counter() - began
    kept_out = context.not_sent(answer)
    metrics.context_answered(answer.status, seconds, saved=kept_out)
    share = Share(key.tenant, chat_id, body.user_id or "", body.model)
    runtime.counting.not_sent(share, kept_out)
    # An unknown chat that comes without a window has the usual one.
    sized = replace(answer, window=answer.window or runtime.settings.window)
    return Response(_ENCODE(sized), media_type="application/json")


def _lookup(tenant: int, chat: str, body: ContextRequest, settings: Settings) -> Lookup:
    """The request as the use case takes it."""
    window = policy.believed(body.windows)
    return Lookup(
        tenant=tenant,
        chat=chat,
        depth=body.depth,
        pairs=body.path,
        sizes=body.sizes,
        window=window or settings.of_model(body.model).window,
        user=body.user_id,
        anyone=settings.share_forks == "tenant",
        apply_at=settings.apply_share(body.model),
        beside=body.beside,
        running=body.running,
        room=body.room,
    )


def _question(content: bytearray, most: int) -> ContextRequest:
    """The decoded and checked body; `most` messages are accepted."""
    try:
        body = _DECODE(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise problems.from_msgspec(error) from None
    _check_path(body, most)
    _check_description(body.native, most)
    # In JSON, control characters of C0 can only be escaped, and those of C1 are not ASCII, so that
    # most bodies need not be searched.
    if b"\\" in content or b"\x7f" in content or not content.isascii():
        _check_characters(body)
    return body


def _check_path(body: ContextRequest, most: int) -> None:
    length = len(body.path)
    if length > most:
        raise TooLarge(
            f"the path has {length} messages, and {most} are accepted; send the newest of them"
        )
    if body.depth < length:
        raise Unprocessable(
            f"`depth` is {body.depth}, but `path` has {length} messages; `depth` counts all"
            " messages from the root",
            pointer="/depth",
        )
    if len(body.sizes) != length:
        raise Unprocessable(
            f"`sizes` has {len(body.sizes)} numbers, but `path` has {length} messages",
            pointer="/sizes",
        )
    if len({identity for identity, _ in body.path}) < length:
        raise Unprocessable(
            "`path` has the same message twice; a path has no cycle", pointer="/path"
        )


def _check_description(native: edit.RequestShape | None, most: int) -> None:
    if native and max(len(native.questions), len(native.asked)) > most:
        raise TooLarge(f"`native` describes more than {most} messages; send the newest of them")


def _check_characters(body: ContextRequest) -> None:
    for identity, digest in body.path:
        if _CONTROL.search(identity) or _CONTROL.search(digest):
            raise Unprocessable("an id or a digest has a control character", pointer="/path")
    if _CONTROL.search(body.user_id or ""):
        raise Unprocessable("the user's id has a control character", pointer="/user_id")
    if _CONTROL.search(body.model):
        raise Unprocessable("the model's name has a control character", pointer="/model")
