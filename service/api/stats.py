"""Operators' route for the daily sums of tokens."""

from fastapi import APIRouter

from service.api.deps import OperatorDep, RuntimeDep
from service.api.queries import StatsQuery
from service.storage import runs
from service.storage.runs import Stats

router = APIRouter(prefix="/v1", tags=["operators"])


@router.get("/stats")
async def get_stats(operator: OperatorDep, runtime: RuntimeDep, query: StatsQuery) -> Stats:
    """Shows tokens not sent, tokens that summarisers read, and turns that lost text.

    There is a row for each day and model, the newest day first.
    """
    return await runs.read_sums(runtime.database.reads, operator.tenant, query.days)
