"""The filter's other routes: finished turns, and who answers, for `precis install-filter`."""

import msgspec
from fastapi import APIRouter, Request, Response

from service import __version__
from service.api.bodies import MOST_MESSAGES, document_body, read_body
from service.api.callers import get_runtime
from service.api.deps import FilterKey, RuntimeDep
from service.api.serving import get_serving
from service.api.wire import FilterAnswer, TurnAnswer, TurnRequest, make_schema
from service.errors import TooLarge, Unprocessable
from service.storage import keys
from service.storage.runs import UsageKey
from service.usecases.hand_over import FinishedTurn, find_outcome, hand_over_turn
from service.usecases.weigh import State
from service.usecases.windows import Windows

_LONGEST_LABEL = 200  # characters

_EXAMPLE = {
    "chat": "chat-1",
    "user": "anna",
    "model": "qwen3:8b",
    "messages": [
        {"id": "m1", "role": "user", "content": "How many pumps does cellar 7 have?"},
        {"id": "m2", "role": "assistant", "content": "Cellar 7 has three pumps."},
    ],
}

router = APIRouter(tags=["filter"])


@router.get("/v1/filter")
async def get_filter(key: FilterKey, runtime: RuntimeDep) -> FilterAnswer:
    """The service's version, the key's tenant, and who writes its summaries."""
    endpoint = runtime.worker_context.summariser
    return FilterAnswer(
        version=__version__,
        tenant=key.tenant_name,
        endpoint=endpoint.name if endpoint else None,
        summariser=await keys.find_summariser(runtime.database.reads, key.tenant),
    )


@router.post(
    "/v1/turns",
    status_code=202,
    response_model=None,
    openapi_extra=document_body(TurnRequest, example=_EXAMPLE),
    responses={202: {"content": {"application/json": {"schema": make_schema(TurnAnswer)}}}},
)
async def post_turn(request: Request, key: FilterKey) -> Response:
    """Stores a finished turn as its host stores it. Sending it again changes nothing.

    The call is optional, because the next request shows the turn too. With it, a summary is written
    before that request comes, Precis knows your ids, and the provider's `usage` corrects its
    counts.

    `409`: the message that the turn follows is not stored any more; the next request stores all of
    them. `429`: too many uploads of this user wait for their turn.
    """
    body = await read_body(request, TurnRequest)
    context = get_serving(request)
    turn = await _make_finished_turn(key.tenant, body, context.windows)
    state = turn.state
    outcome = await hand_over_turn(context, turn)
    # Without a state, no request was seen, so nothing is known of what it lost.
    if body.state:
        counting = get_runtime(request).counting
        counting.count_turn(UsageKey(key.tenant, state.model), find_outcome(state))
    answer = msgspec.json.encode(TurnAnswer(outcome.due, outcome.asks))
    return Response(answer, 202, media_type="application/json")


async def _make_finished_turn(tenant: int, body: TurnRequest, windows: Windows) -> FinishedTurn:
    """The turn as the use case takes it."""
    if len(body.messages) > MOST_MESSAGES:
        raise TooLarge(
            f"the branch has {len(body.messages)} messages, and {MOST_MESSAGES} are accepted"
        )
    return FinishedTurn(
        tenant=tenant,
        state=body.state or await _make_state(tenant, body, windows),
        rows=body.messages,
        is_branch=body.whole or body.state is None,
        title=_shorten_label(body.title),
        user_name=_shorten_label(body.user_name),
    )


def _shorten_label(text: str | None) -> str | None:
    """As much of a title or a name as operators are shown."""
    return text[:_LONGEST_LABEL] if text else None


async def _make_state(tenant: int, body: TurnRequest, windows: Windows) -> State:
    """The state of a branch of which no request was seen."""
    if not (body.chat and body.model):
        raise Unprocessable(
            "give the `state` that the answer to the turn's request had, or `chat` and `model`"
            " with the whole branch",
            pointer="/state",
        )
    sizes = [body.window, *body.windows] if body.window else body.windows
    window = await windows.find(tenant, body.model, sizes)
    return State(
        chat=body.chat,
        user=body.user or body.chat,
        model=body.model,
        window=window.tokens,
        assumed=window.assumed,
    )
