"""LiteLLM's door: its generic guardrail asks here before each call of a model.

In: a request as LiteLLM translates it from any of its three wires, in the shape of LiteLLM 1.110's
`generic_guardrail_api`. Out: the list of messages to send instead, or that nothing changes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.api.compress import host_request, list_to_send, prepare
from service.api.deps import FilterKey, decoded, documented, read_bytes
from service.api.wire import CompressRequest, Identity, schema_of
from service.request.record import is_inserted
from service.transcript import Native, text_of
from service.transcript.identities import identity
from service.usecases.serve import PreparedRequest

PATH = "/beta/litellm_basic_guardrail_api"
"""LiteLLM puts it behind the address that it is given."""
# The first that a request has names its chat; a parent's session is none of its own.
_CHAT_HEADERS = [
    re.compile(name)
    for name in (
        "x-precis-chat",
        "x-openwebui-chat-id",
        "x-conversation-id",
        "x-litellm-session-id",
        "x-(?!.*parent).+-session-id",
        "x-session-id",
        "x-session-affinity",
    )
]
SECONDS = 0.6
"""How long a request may wait for a summary by code: LiteLLM waits for one second."""
_NOT_FORWARDED = "[present]"  # the value of a header that `extra_headers` does not name
_USER_HEADERS = ("x-precis-user", "x-openwebui-user-id")
_USER_FIELDS = ("user_api_key_end_user_id", "user_api_key_user_id", "user_api_key_hash")


class GuardrailRequest(msgspec.Struct, frozen=True):
    """What LiteLLM sends; its other fields are passed over.

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
    """Which messages LiteLLM is to send instead; with `NONE`, it sends its own."""

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
    openapi_extra=documented(GuardrailRequest, example=_EXAMPLE),
    responses={200: {"content": {"application/json": {"schema": schema_of(GuardrailAnswer)}}}},
)
async def post_guardrail(request: Request, key: FilterKey) -> Response:
    """Makes a request that LiteLLM is about to send fit into the model's window.

    LiteLLM's `generic_guardrail_api` calls it, with the key as `x-api-key`. It does what
    `POST /v1/compress` does. `X-Precis: off` among the headers leaves a request as it is.
    """
    asked = await decoded(await read_bytes(request), GuardrailRequest)
    answer = await _answer(request, key.tenant, asked)
    return Response(msgspec.json.encode(answer), media_type="application/json")


async def _answer(request: Request, tenant: int, asked: GuardrailRequest) -> GuardrailAnswer:
    headers = _headers_of(asked)
    messages = asked.structured_messages
    is_off = headers.get("x-precis", "").lower() == "off"
    if asked.input_type == "response" or is_off or not (messages and asked.model):
        return _UNCHANGED
    told = CompressRequest(
        model=asked.model,
        messages=messages,
        chat=_chat_of(headers),
        user=_user_of(headers, asked.request_data or {}),
        tools=asked.tools,
        seconds=SECONDS,
    )
    served = await prepare(request, replace(host_request(tenant, told), by_chain=True))
    made = list_to_send(served, messages)
    if made is None:
        return _UNCHANGED
    return GuardrailAnswer("GUARDRAIL_INTERVENED", _rows(served, made, messages))


def _headers_of(asked: GuardrailRequest) -> dict[str, str]:
    """The headers that LiteLLM has forwarded, by their names in lower case."""
    sent = asked.request_headers or {}
    return {name.lower(): value for name, value in sent.items() if value != _NOT_FORWARDED}


def _chat_of(headers: Mapping[str, str]) -> str:
    """The id that a host gives the chat; empty where it gives none.

    LiteLLM's own trace id is none: where no header names a session, LiteLLM makes up a new one for
    each request, and where only a parent's does, it is the parent's.
    """
    for pattern in _CHAT_HEADERS:
        for name, value in headers.items():
            if pattern.fullmatch(name) and value:
                return identity(value)
    return ""


def _user_of(headers: Mapping[str, str], data: Mapping[str, Any]) -> str:
    """Who asks: as the host names them, or else as LiteLLM does by the key."""
    named = [headers.get(name) for name in _USER_HEADERS]
    known = [data.get(name) for name in _USER_FIELDS]
    user = next((one for one in [*named, *known] if one), "")
    return identity(str(user)) if user else ""


def _rows(
    served: PreparedRequest, made: Sequence[int | Native], messages: Sequence[Native]
) -> list[Native]:
    """The rows to send; LiteLLM leaves those alone that come back as it showed them.

    Where the provider was to keep a covered message in its cache, it is to keep the summary there.
    """
    rows = [messages[one] if isinstance(one, int) else one for one in made]
    if not served.covered:
        return rows
    place = next(place for place in range(len(rows)) if is_inserted(rows[place : place + 2]))
    marks: list[object] = []
    for message in messages[place : place + served.covered]:
        marks += _cache_marks(message)
    if marks:
        text = {"type": "text", "text": text_of(rows[place]), "cache_control": marks[-1]}
        rows[place] = rows[place] | {"content": [text]}
    return rows


def _cache_marks(message: Native) -> list[object]:
    """What a message and its parts say of the provider's cache."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    holders = [one for one in [message, *parts] if isinstance(one, dict)]
    return [one["cache_control"] for one in holders if one.get("cache_control")]
