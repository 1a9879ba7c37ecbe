"""The hot route, for which every user waits: `POST /v1/compress`."""

import json
from time import perf_counter
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service import metrics
from service.api.bodies import MOST_MESSAGES, document_body, read_body
from service.api.callers import get_runtime
from service.api.deps import FilterKey
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
    body = await read_body(request, CompressRequest)
    prepared = await prepare_request(request, key.tenant, body)
    return Response(_ENCODE(_make_answer(prepared, body.messages)), media_type="application/json")


async def prepare_request(
    request: Request, tenant: int, body: CompressRequest, *, shares_ids: bool = False
) -> PreparedRequest:
    """Prepares a request to a model, counts the tokens that this saves, and stores its new part.

    `HostRequest` explains `shares_ids`.

    Raises:
        TooLarge: the request has more than `MOST_MESSAGES` messages.
        Unprocessable: `ids` and `messages` are not of one length.
    """
    context = get_serving(request)
    host_request = _make_host_request(tenant, body, shares_ids=shares_ids)
    began = perf_counter()
    prepared = await serve.serve_request(context, host_request)
    not_sent = prepared.before - prepared.after if prepared.covered else 0
    metrics.count_answer(prepared.status, perf_counter() - began, saved=not_sent)
    usage_key = UsageKey(tenant, prepared.state.model)
    get_runtime(request).counting.count_not_sent(usage_key, not_sent)
    if prepared.unstored:
        context.store_later(serve.store_request(context, prepared.unstored))
    return prepared


def _make_host_request(tenant: int, body: CompressRequest, *, shares_ids: bool) -> HostRequest:
    """The request as the use case takes it."""
    if len(body.messages) > MOST_MESSAGES:
        raise TooLarge(
            f"the request has {len(body.messages)} messages, and {MOST_MESSAGES} are accepted;"
            " begin a new chat, or leave out the oldest"
        )
    if body.ids is not None and len(body.ids) != len(body.messages):
        raise Unprocessable(
            f"`ids` has {len(body.ids)} entries, but `messages` has {len(body.messages)}; give"
            " null for a message whose id you do not know",
            pointer="/ids",
        )
    # With blanks, as chat templates write them for the model.
    tools = json.dumps(body.tools, ensure_ascii=False) if body.tools else ""
    return HostRequest(
        tenant=tenant,
        chat=body.chat,
        user=body.user or body.chat or _NOBODY,
        model=body.model,
        messages=body.messages,
        ids=body.ids or [],
        window_sizes=[body.window, *body.windows] if body.window else body.windows,
        answer_tokens=max(body.max_tokens, 0) if type(body.max_tokens) is int else 0,
        non_message_text=body.prompt + tools,
        guided=body.guided,
        recall=body.recall,
        wait_seconds=min(body.seconds, _LONGEST_WAIT),
        keep_hours=body.keep_hours,
        state=body.state,
        shares_ids=shares_ids,
    )


def _make_answer(prepared: PreparedRequest, messages: list[dict[str, Any]]) -> CompressAnswer:
    state = prepared.state
    return CompressAnswer(
        messages=make_list_to_send(prepared, messages),
        status=prepared.status,
        tokens=Tokens(prepared.before, prepared.after, state.window),
        state=state,
        status_text=prepared.line or None,
        summary=prepared.summary or None,
        checkpoint=state.served or None,
        covered_until=prepared.covered_until,
        covered_messages=prepared.covered or None,
        left_out=prepared.fitted.left_out,
        whole=prepared.whole,
    )


def make_list_to_send(
    prepared: PreparedRequest, messages: list[dict[str, Any]]
) -> list[int | dict[str, Any]] | None:
    """The places of messages that go as they came, among new ones; None if all go as they came."""
    sent = [_choose_place_or_message(piece, messages) for piece in prepared.fitted.pieces]
    return None if sent == list(range(len(messages))) else sent


def _choose_place_or_message(piece: Piece, messages: list[dict[str, Any]]) -> int | dict[str, Any]:
    """The place of a message that goes as it came, or else the message."""
    place = piece.place
    if place is not None and piece.message == messages[place]:
        return place
    return piece.message
