"""The hot route, which every answer that a user waits for has to pass: `POST /v1/chats/{chat_id}/context`.

Requests are `answered` before FastAPI's middleware, routing and handling of parameters,
dependencies and exit stacks, which take 100 µs, longer than the read (measured, fastapi 0.165).
`router` has the same function for the OpenAPI page.
"""

import re

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service import edit, policy
from service.api import problems
from service.api.deps import caller, documented, read_bytes, runtime_of
from service.api.wire import (
    ContextAnswer,
    ContextRequest,
    Edit,
    Inserted,
    NativeRequest,
    Tokens,
    schema_of,
)
from service.errors import TooLarge, Unprocessable
from service.processes.intake import CONTROL
from service.storage.contexts import Served
from service.usecases import context

_PATH = re.compile("/v1/chats/([^/]+)/context")
_LONGEST = 200  # as `wire.Id` has it
_CONTROL = re.compile(f"[{CONTROL}]")
_DECODE = msgspec.json.Decoder(ContextRequest).decode
_ENCODE = msgspec.json.Encoder().encode
_CHAT_ID = {
    "name": "chat_id",
    "in": "path",
    "required": True,
    "description": "Open WebUI's chat id.",
    "schema": {"type": "string", "minLength": 1, "maxLength": _LONGEST},
}


router = APIRouter(tags=["filter"])


@router.post(
    "/v1/chats/{chat_id}/context",
    response_model=None,
    openapi_extra=documented(ContextRequest) | {"parameters": [_CHAT_ID]},
    responses={200: {"content": {"application/json": {"schema": schema_of(ContextAnswer)}}}},
)
async def post_context(request: Request) -> Response:
    """The stored summary for a request, and the boundary from which the messages are sent verbatim.

    One indexed read; no LLM is asked. `ready` carries a summary, `not_needed` says that the request
    is small enough, `pending` that a summary is not there yet, `unknown` that no message of the
    path is stored. A fork, a clone or an import of which no message is stored is answered from the
    summaries of the user's other chats; `known` is null then.

    With `summary_role` of `record`, a summary comes in two texts: `summary` for the system message,
    or null, and `record` for a message with the role of a user. An older summary has no `record`,
    and comes in one.

    With `native`, which describes the request, `ready` says how to `edit` it, and the summary comes
    in there alone.
    """
    key, runtime = await caller(request, "filter"), runtime_of(request)
    chat = request.path_params["chat_id"]
    if len(chat) > _LONGEST or _CONTROL.search(chat):
        raise Unprocessable(
            f"a chat id has {_LONGEST} characters at most, none for control", pointer="/chat_id"
        )
    body = _question(await read_bytes(request), runtime.settings.max_path)
    path = context.Path(body.depth, body.path)
    settings = runtime.settings
    anyone = settings.share_forks == "tenant"
    window = (
        body.window_tokens or policy.believed(body.windows) or settings.of_model(body.model).window
    )
    served = Served(
        settings.apply_share(body.model),
        body.summary_role == "record",
        body.overhead or 0,
        body.room,
    )
    asked = context.Lookup(
        tenant=key.tenant,
        chat=chat,
        window=window,
        path=path,
        sizes=body.sizes,
        user=body.user_id,
        anyone=anyone,
        served=served,
        usual_window=settings.window,
        request=_described(body.native),
    )
    answer = await context.answer(runtime.database.reads, asked)
    return Response(_ENCODE(_context(answer)), media_type="application/json")


def _question(body: bytearray, most: int) -> ContextRequest:
    try:
        asked = _DECODE(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise problems.from_msgspec(error) from None
    if len(asked.path) > most:
        raise TooLarge(f"the path has {len(asked.path)} messages, at most {most} are taken")
    if asked.depth < len(asked.path):
        raise Unprocessable(
            f"depth is {asked.depth}, but the path shows {len(asked.path)} messages",
            pointer="/depth",
        )
    native = asked.native
    if native and max(len(native.questions), len(native.asked)) > most:
        raise TooLarge(f"the request is described by more than {most} messages")
    if len({identity for identity, _ in asked.path}) < len(asked.path):
        raise Unprocessable(
            "the path has the same message twice: a path has no cycle", pointer="/path"
        )
    # JSON has those of C0 as escapes only, and C1 is no ASCII, so most bodies need not be searched.
    if b"\\" in body or b"\x7f" in body or not body.isascii():
        if any(_CONTROL.search(part) for pair in asked.path for part in pair):
            raise Unprocessable("an id or a digest has a control character", pointer="/path")
        if _CONTROL.search(asked.user_id or ""):
            raise Unprocessable("the user's id has a control character", pointer="/user_id")
        if _CONTROL.search(asked.model):
            raise Unprocessable("the model's name has a control character", pointer="/model")
    return asked


def _described(native: NativeRequest | None) -> edit.Request | None:
    if native is None:
        return None
    return edit.Request(
        leading=native.leading,
        questions=native.questions,
        asked=native.asked,
        all_questions=native.all_questions,
        all_asked=native.all_asked,
        images=native.images,
        guided=native.guided,
    )


def _context(answer: context.Decision) -> ContextAnswer:
    made = answer.checkpoint
    return ContextAnswer(
        status=answer.status,
        known=answer.known,
        window=answer.window or None,
        checkpoint_id=made.id if made else None,
        covered_until=made.until if made else None,
        covered_digest=made.digest if made else None,
        covered_messages=made.messages if made else None,
        summary=None if answer.edit else answer.summary or None,
        record=None if answer.edit else answer.record or None,
        tokens=None
        if answer.status == "unknown"
        else Tokens(answer.before, answer.after, answer.overhead),
        edit=_edit(answer.edit) if answer.edit else None,
        density=answer.density,
        status_text=answer.status_text or None,
    )


def _edit(proposed: edit.Edit) -> Edit:
    return Edit(list(proposed.drop), [Inserted(*one) for one in proposed.insert])


async def answered(scope: Scope, receive: Receive, send: Send) -> bool:
    """Answers an ASGI request for the hot route; False, and nothing done, for any other."""
    hot = scope["type"] == "http" and scope["method"] == "POST" and _PATH.fullmatch(scope["path"])
    if not hot:
        return False
    scope["path_params"] = {"chat_id": hot[1]}
    try:
        response = await post_context(Request(scope, receive))
    except Exception as error:
        response = problems.answer(problems.of(error, scope["path"]))
    await response(scope, receive, send)
    return True
