"""The hot route, for which every user waits: `POST /v1/compress`."""

import json
from time import perf_counter
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service import metrics
from service.api.callers import get_runtime
from service.api.deps import MOST_MESSAGES, FilterKey, decode_body, document_body, read_bytes
from service.api.serving import get_serving
from service.api.wire import CompressAnswer, CompressRequest, Tokens, make_schema
from service.errors import TooLarge, Unprocessable
from service.request.fit import Piece
from service.storage.runs import UsageKey
from service.usecases import serve
from service.usecases.serve import PreparedRequest
from service.usecases.weigh import HostRequest

_ENCODE = msgspec.json.Encoder().encode
_LONGEST_WAIT = 10.0  # seconds for a summary that code writes
_NOBODY = "anonymous"  # who asks where nobody says so, and the chat has no id either

_EXAMPLE = {
    "chat": "chat-1",
    "user": "anna",
    "model": "qwen3:8b",
    "window": 8192,
    "messages": [
        {"role": "system", "content": "You are a careful assistant."},
        {"role": "user", "content": "How many pumps does cellar 7 have?"},
        {"role": "assistant", "content": "Cellar 7 has three pumps."},
        {"role": "user", "content": "And cellar 8?"},
    ],
}

router = APIRouter(tags=["filter"])


@router.post(
    "/v1/compress",
    response_model=None,
    openapi_extra=document_body(CompressRequest, example=_EXAMPLE),
    responses={200: {"content": {"application/json": {"schema": make_schema(CompressAnswer)}}}},
)
async def post_compress(request: Request, key: FilterKey) -> Response:
    """Makes a request to a model fit into the model's window.

    Send the whole chat before each call of the model, and send the model what the answer has. When
    the chat fills most of the window, a stored summary stands for its older messages, and only if
    the request begins with exactly what the summary has read. No model is asked here: if no summary
    is stored, code writes one within `seconds`. If the request does not fit even so, parts are left
    out, with a note to the model.

    The call also stores what is new of the chat. With `POST /v1/turns` after the model's answer,
    the next summary is written earlier.
    """
    # The body itself is not kept: it may be megabytes.
    asked = await decode_body(await read_bytes(request), CompressRequest)
    served = await prepare_request(request, key.tenant, asked)
    return Response(_ENCODE(_make_answer(served, asked.messages)), media_type="application/json")


async def prepare_request(
    request: Request, tenant: int, asked: CompressRequest, *, shares_ids: bool = False
) -> PreparedRequest:
    """Prepares a request to a model, counts the tokens that this saves, and stores its new part.

    `HostRequest` explains `shares_ids`.

    Raises:
        TooLarge: the request has more than `MOST_MESSAGES` messages.
        Unprocessable: `ids` and `messages` are not of one length.
    """
    context = get_serving(request)
    host_request = _make_host_request(tenant, asked, shares_ids=shares_ids)
    began = perf_counter()
    served = await serve.serve_request(context, host_request)
    not_sent = served.before - served.after if served.covered else 0
    metrics.count_answer(served.status, perf_counter() - began, saved=not_sent)
    usage_key = UsageKey(tenant, served.state.model)
    get_runtime(request).counting.count_not_sent(usage_key, not_sent)
    if served.unstored:
        context.store_later(serve.store_request(context, served.unstored))
    return served


def _make_host_request(tenant: int, asked: CompressRequest, *, shares_ids: bool) -> HostRequest:
    """The request as the use case takes it."""
    if len(asked.messages) > MOST_MESSAGES:
        raise TooLarge(
            f"the request has {len(asked.messages)} messages, and {MOST_MESSAGES} are accepted;"
            " begin a new chat, or leave out the oldest"
        )
    if asked.ids is not None and len(asked.ids) != len(asked.messages):
        raise Unprocessable(
            f"`ids` has {len(asked.ids)} entries, but `messages` has {len(asked.messages)}; give"
            " null for a message whose id you do not know",
            pointer="/ids",
        )
    # With blanks, as chat templates write them for the model.
    tools = json.dumps(asked.tools, ensure_ascii=False) if asked.tools else ""
    return HostRequest(
        tenant=tenant,
        chat=asked.chat,
        user=asked.user or asked.chat or _NOBODY,
        model=asked.model,
        messages=asked.messages,
        ids=asked.ids or [],
        window_sizes=[asked.window, *asked.windows] if asked.window else asked.windows,
        answer_tokens=max(asked.max_tokens, 0) if type(asked.max_tokens) is int else 0,
        non_message_text=asked.prompt + tools,
        guided=asked.guided,
        recall=asked.recall,
        wait_seconds=min(asked.seconds, _LONGEST_WAIT),
        keep_hours=asked.keep_hours,
        state=asked.state,
        shares_ids=shares_ids,
    )


def _make_answer(served: PreparedRequest, messages: list[dict[str, Any]]) -> CompressAnswer:
    state = served.state
    return CompressAnswer(
        messages=make_list_to_send(served, messages),
        status=served.status,
        tokens=Tokens(served.before, served.after, state.window),
        state=state,
        status_text=served.line or None,
        summary=served.summary or None,
        checkpoint=state.served or None,
        covered_until=served.covered_until,
        covered_messages=served.covered or None,
        left_out=served.fitted.left_out,
        whole=served.whole,
    )


def make_list_to_send(
    served: PreparedRequest, messages: list[dict[str, Any]]
) -> list[int | dict[str, Any]] | None:
    """The places of messages that go as they came, among new ones; None if all go as they came."""
    made = [_choose_place_or_message(piece, messages) for piece in served.fitted.pieces]
    return None if made == list(range(len(messages))) else made


def _choose_place_or_message(piece: Piece, messages: list[dict[str, Any]]) -> int | dict[str, Any]:
    """The place of a message that goes as it came, or else the message."""
    place = piece.place
    if place is not None and (piece.message is messages[place] or piece.message == messages[place]):
        return place
    return piece.message
