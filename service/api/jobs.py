"""Operators' routes for work: the queue in numbers, jobs with their failures, and retries."""

from fastapi import APIRouter
from pydantic import BaseModel

from service.api.deps import ChatId, OperatorDep, RuntimeDep
from service.api.queries import JobQuery
from service.names import STATES
from service.usecases import monitor, operate
from service.usecases.monitor import JobPage, Status

router = APIRouter(prefix="/v1", tags=["operators"])


class RetryDeadAnswer(BaseModel):
    """The number of chats whose dead work is due now."""

    chats: int


@router.get("/status")
async def show_status(operator: OperatorDep, runtime: RuntimeDep) -> Status:
    """Shows this tenant's queue and all circuit breakers.

    `month` has the sums of tokens of the last 30 days, `warnings` what needs attention.
    """
    warnings = runtime.worker_context.warnings
    return await monitor.read_status(runtime.database, operator.tenant, runtime.settings, warnings)


@router.get("/jobs")
async def list_jobs(operator: OperatorDep, runtime: RuntimeDep, query: JobQuery) -> JobPage:
    """Lists chats with work: in progress, due, waiting (after a failure: with its reason), dead."""
    reads, states = runtime.database.reads, query.state or STATES
    return await monitor.list_jobs(reads, operator.tenant, states, query.limit, query.cursor)


@router.post("/jobs/{chat_id}/retry", status_code=204)
async def retry(chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep) -> None:
    """Makes a chat's work due now and forgets its failed attempts."""
    await operate.retry(runtime.database.engine, runtime.queue, operator, chat_id)


@router.post("/jobs/retry", status_code=202)
async def retry_dead_jobs(operator: OperatorDep, runtime: RuntimeDep) -> RetryDeadAnswer:
    """Makes all dead work of this tenant due now."""
    engine, queue = runtime.database.engine, runtime.queue
    revived = await operate.retry_dead_chats(engine, queue, operator)
    return RetryDeadAnswer(chats=revived)
