"""Looking up what a summary covers: for models through the filter's key, and for operators."""

from fastapi import APIRouter, Request

from service.api.bodies import document_body, read_body
from service.api.deps import ChatId, FilterKey, OperatorDep, RuntimeDep
from service.api.queries import FindQuery
from service.api.wire import RecallRequest
from service.errors import Unprocessable
from service.recall.display import Finding
from service.storage.contexts import RecallScope
from service.usecases import recall
from service.usecases.recall import RecallQuestion

_LONGEST = 300  # characters of what a model gives
_LAST_LINE = 2**31

router = APIRouter(prefix="/v1")


@router.post("/recall", tags=["filter"], openapi_extra=document_body(RecallRequest))
async def post_recall(request: Request, key: FilterKey, runtime: RuntimeDep) -> Finding:
    """Looks something up in what a request hides of this branch, for the model that answers.

    With `query`, the best places that have these words, a line each. With `ref`, one message or
    result as it is stored, with line numbers. A model's null and a number in place of a text are
    accepted. Nothing else of the chat is seen: no other branch, no other user's chat, and nothing
    that the model has in its request anyway.
    """
    body = await read_body(request, RecallRequest)
    question = RecallQuestion(
        _read_words(body.query),
        _read_words(body.ref),
        _read_line(body.line),
        _read_words(body.grep),
        body.max_tokens,
    )
    _check_question(question)
    state = body.state
    branch = RecallScope(
        tenant=key.tenant,
        chat=state.chat,
        user=state.user,
        node=state.above or "",
        checkpoint=state.served,
        whole=bool(state.cut),
    )
    engine, mask = runtime.database.engine, runtime.settings.mask_secrets
    return await recall.recall_for_model(engine, runtime.texts, branch, key.by, question, mask)


@router.get("/chats/{chat_id}/find", tags=["operators"])
async def find_in_chat(
    chat_id: ChatId,
    operator: OperatorDep,
    runtime: RuntimeDep,
    query: FindQuery,
) -> Finding:
    """Finds words in a chat, or reads one message or result of a tool as it is stored.

    Looks at the path that was stored last, covered or not.
    """
    question = RecallQuestion(query.query, query.ref, query.line, query.grep, query.max_tokens)
    _check_question(question)
    engine, mask = runtime.database.engine, runtime.settings.mask_secrets
    return await recall.recall_for_operator(
        engine, runtime.texts, operator, chat_id, question, mask
    )


def _check_question(question: RecallQuestion) -> None:
    """Raises Unprocessable unless there are words or a reference, which goes first."""
    if not (question.query.strip() or question.ref.strip()):
        raise Unprocessable(
            "give either `query`, words to look for, or `ref`, what to read", pointer="/query"
        )


def _read_words(given: object) -> str:
    """The words that a model gives, as a text."""
    return "" if given is None else str(given)[:_LONGEST].strip()


def _read_line(given: object) -> int:
    """The number that a model gives, from 1 on; 1 for anything else."""
    try:
        return min(max(int(str(given)), 1), _LAST_LINE)
    except ValueError:
        return 1
