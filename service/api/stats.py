"""Operators' route for the daily sums of tokens."""

from typing import Annotated

from fastapi import APIRouter, Query

from service.api.deps import OperatorDep, RuntimeDep
from service.names import MONTH, MOST_STATS_DAYS
from service.storage import runs
from service.storage.runs import Stats

router = APIRouter(prefix="/v1", tags=["operators"])

Days = Annotated[
    int, Query(ge=1, le=MOST_STATS_DAYS, description="How many days, with today; in UTC.")
]


@router.get("/stats")
async def get_stats(operator: OperatorDep, runtime: RuntimeDep, days: Days = MONTH) -> Stats:
    """Shows tokens not sent, tokens that summarisers read, and turns that lost text.

    There is a row for each day and model, the newest day first.
    """
    return await runs.read_sums(runtime.database.reads, operator.tenant, days)
