"""LiteLLM's door: its generic guardrail asks here before each call of a model.

In: a request as LiteLLM translates it from any of its three wires, in the shape of LiteLLM 1.110's
`generic_guardrail_api`. Out: the list of messages to send instead, or that nothing changes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.api.bodies import document_body, read_body
from service.api.compress import make_list_to_send, prepare_request
from service.api.deps import FilterKey
from service.api.wire import CompressRequest, Identity, make_schema
from service.request.record import is_record
from service.transcript import Native
from service.transcript.identities import normalise_id
from service.usecases.serve import PreparedRequest

PATH = "/beta/litellm_basic_guardrail_api"
"""LiteLLM puts it behind the address that it is given."""
# The first of these headers that a request has names its chat. A parent's session is not its own.
_CHAT_HEADERS = (
    "x-precis-chat",
    "x-openwebui-chat-id",
    "x-conversation-id",
    "x-litellm-session-id",
    "x-(?!.*parent).+-session-id",
    "x-session-id",
    "x-session-affinity",
)
SECONDS = 0.6
"""How long a request may wait for a summary by code: LiteLLM waits for one second."""
_NOT_FORWARDED = "[present]"  # the value of a header that `extra_headers` does not name
_USER_HEADERS = ("x-precis-user", "x-openwebui-user-id")
_USER_FIELDS = ("user_api_key_end_user_id", "user_api_key_user_id", "user_api_key_hash")


class GuardrailRequest(msgspec.Struct, frozen=True):
    """The body that LiteLLM sends. It has more fields, which Precis does not need.

    Attributes:
        input_type: nothing changes in a `response`.
        structured_messages: all messages, as of a chat completion.
        model: its name in LiteLLM, for which `PRECIS_MODELS` may have the window.
        tools: specifications of the tools that go along.
        request_data: what LiteLLM knows of who asks.
        request_headers: those of the request to LiteLLM.
    """

    input_type: Literal["request", "response"] = "request"
    structured_messages: list[Native] | None = None
    model: Identity | None = None
    tools: list[dict[str, Any]] | None = None
    request_data: dict[str, Any] | None = None
    request_headers: dict[str, str] | None = None


class GuardrailAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to LiteLLM: the messages to send, or `NONE` if it is to send its own."""

    action: Literal["NONE", "GUARDRAIL_INTERVENED"]
    structured_messages: list[Native] | None = None


_UNCHANGED = GuardrailAnswer("NONE")
_EXAMPLE = {
    "input_type": "request",
    "model": "gpt-5",
    "structured_messages": [{"role": "user", "content": "How many pumps does cellar 7 have?"}],
    "request_data": {"user_api_key_user_id": "anna"},
    "request_headers": {"x-precis-chat": "chat-1"},
}

router = APIRouter(tags=["filter"])


@router.post(
    PATH,
    response_model=None,
    openapi_extra=document_body(GuardrailRequest, example=_EXAMPLE),
    responses={200: {"content": {"application/json": {"schema": make_schema(GuardrailAnswer)}}}},
)
async def post_guardrail(request: Request, key: FilterKey) -> Response:
    """Makes a request that LiteLLM is about to send fit into the model's window.

    LiteLLM's `generic_guardrail_api` calls it, with the key as `x-api-key`. It does what
    `POST /v1/compress` does. `X-Precis: off` among the headers leaves a request as it is.
    """
    body = await read_body(request, GuardrailRequest)
    answer = await _fit_request(request, key.tenant, body)
    return Response(msgspec.json.encode(answer), media_type="application/json")


async def _fit_request(request: Request, tenant: int, body: GuardrailRequest) -> GuardrailAnswer:
    headers = _read_headers(body)
    messages = body.structured_messages
    is_off = headers.get("x-precis", "").lower() == "off"
    if body.input_type == "response" or is_off or not (messages and body.model):
        return _UNCHANGED
    fitted_request = CompressRequest(
        model=body.model,
        messages=messages,
        chat=_find_chat_id(headers),
        user=_find_user(headers, body.request_data or {}),
        tools=body.tools,
        seconds=SECONDS,
    )
    prepared = await prepare_request(request, tenant, fitted_request, shares_ids=True)
    sent = make_list_to_send(prepared, messages)
    if sent is None:
        return _UNCHANGED
    return GuardrailAnswer("GUARDRAIL_INTERVENED", _make_rows(prepared, sent, messages))


def _read_headers(body: GuardrailRequest) -> dict[str, str]:
    """The headers that LiteLLM has forwarded, by their names in lower case."""
    sent = body.request_headers or {}
    return {name.lower(): value for name, value in sent.items() if value != _NOT_FORWARDED}


def _find_chat_id(headers: Mapping[str, str]) -> str:
    """Finds the id that the host gives the chat; empty if it gives none.

    LiteLLM's trace id is not one: without a header that names a session, LiteLLM makes up a new
    trace id for each request, and it may take a parent's session for it.
    """
    for pattern in _CHAT_HEADERS:
        for name, value in headers.items():
            if value and re.fullmatch(pattern, name):
                return normalise_id(value)
    return ""


def _find_user(headers: Mapping[str, str], data: Mapping[str, Any]) -> str:
    """Finds the id of the user that the host gives, or else the one that LiteLLM knows."""
    ids = [headers.get(name) for name in _USER_HEADERS]
    ids += [data.get(name) for name in _USER_FIELDS]
    for user in ids:
        if user:
            return normalise_id(str(user))
    return ""


def _make_rows(
    prepared: PreparedRequest, sent: Sequence[int | Native], messages: Sequence[Native]
) -> list[Native]:
    """Makes the rows to send; LiteLLM leaves those alone that come back as it showed them.

    If a covered message had a mark for the provider's cache, the summary gets the last such mark.
    """
    rows = [messages[one] if isinstance(one, int) else one for one in sent]
    if not prepared.covered:
        return rows
    place = next(place for place in range(len(rows)) if is_record(rows[place : place + 2]))
    marks: list[object] = []
    # The summary stands where the first message that it covers stood.
    for message in messages[place : place + prepared.covered]:
        marks += _find_cache_marks(message)
    if marks:
        summary = rows[place]
        text = {"type": "text", "text": summary["content"], "cache_control": marks[-1]}
        rows[place] = summary | {"content": [text]}
    return rows


def _find_cache_marks(message: Native) -> list[object]:
    """Finds each `cache_control` of a message and of its parts."""
    holders: list[object] = [message]
    content = message.get("content")
    if isinstance(content, list):
        holders += content
    marks = [one.get("cache_control") for one in holders if isinstance(one, dict)]
    return [mark for mark in marks if mark]
