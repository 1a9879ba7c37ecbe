"""Operators' routes for the summariser: one call of it, and its circuit breaker."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, StringConstraints

from service.api.deps import OperatorDep, RuntimeDep, documented, read_body
from service.api.wire import Strict
from service.usecases import operate
from service.usecases.operate import Trial

router = APIRouter(prefix="/v1", tags=["operators"])


class ResetBreakersRequest(Strict):
    """Which circuit breaker to close."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = Field(
        None, description="As `/v1/status` names the endpoint; null for all."
    )


class ResetBreakersAnswer(BaseModel):
    """The endpoints whose breakers were closed."""

    reset: list[str]


@router.post("/summariser/test")
async def try_summariser(operator: OperatorDep, runtime: RuntimeDep) -> Trial:
    """Asks the summariser once, about two sentences of nobody's chat, and says how long it took.

    `error` says why it did not answer. 409 when no model is set, so that code writes summaries.
    """
    return await operate.try_summariser(
        runtime.database.engine, operator, runtime.worker_context.summariser
    )


@router.post("/summariser/reset", openapi_extra=documented(ResetBreakersRequest, required=False))
async def reset_breakers(
    operator: OperatorDep, runtime: RuntimeDep, request: Request
) -> ResetBreakersAnswer:
    """Closes circuit breakers at once, and forgets endpoints that nobody asks any more.

    With several tenants 403: all of them share it, and it closes by itself within five minutes.
    """
    body = await read_body(request, ResetBreakersRequest, empty=ResetBreakersRequest())
    closed = await operate.reset_breakers(runtime.database.engine, operator, body.name)
    if closed:
        # What waited for it is looked for at once, and not at the next sweep.
        await runtime.queue.wake()
    return ResetBreakersAnswer(reset=closed)
