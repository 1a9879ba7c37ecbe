"""Finds words in a chat, or reads one message or result of it; the audit log notes who did."""

from fastapi import APIRouter, Response

from service.api.deps import ChatId, RuntimeDep
from service.api.queries import FindQuery
from service.usecases import inspection, recall
from service.usecases.recall import RecallQuestion
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_ROOM = 4000
"""Tokens of an answer."""


@router.get("/chats/{chat_id}/find")
async def find(
    chat_id: ChatId,
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    query: FindQuery,
) -> Response:
    """Shows what the newest branch has for the words or the reference; without both, the form."""
    engine, by = runtime.database.engine, signed_in.by
    finding = None
    if query.query.strip() or query.ref.strip():
        question = RecallQuestion(query.query, query.ref, query.line, query.grep, _ROOM)
        mask = runtime.settings.mask_secrets
        finding = await recall.recall_for_operator(
            engine, runtime.texts, by, chat_id, question, mask
        )
    else:
        await inspection.check_chat(engine, by.tenant, chat_id)
    return render(
        "find.html",
        who=signed_in,
        place="/chats",
        chat_id=chat_id,
        question=query,
        finding=finding,
    )
