"""Operators' route for what Precis is worth: tokens not sent, and what summaries cost."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query

from service.api.deps import OperatorDep, RuntimeDep
from service.names import MOST_PARTS, By
from service.usecases import worth
from service.usecases.worth import Worth

router = APIRouter(prefix="/v1", tags=["operators"])

ByQuery = Annotated[By, Query(description="What a part is; days are in UTC.")]
FirstDay = Annotated[
    date | None, Query(alias="from", description="First day; by default the last 30 days.")
]
LastDay = Annotated[date | None, Query(alias="to", description="Last day; by default today.")]
Limit = Annotated[
    int,
    Query(
        ge=1,
        le=MOST_PARTS,
        description="Most parts: the newest days, or those with the most tokens.",
    ),
]


@router.get("/stats")
async def get_stats(
    operator: OperatorDep,
    runtime: RuntimeDep,
    by: ByQuery = "day",
    first_day: FirstDay = None,
    last_day: LastDay = None,
    limit: Limit = 100,
) -> Worth:
    """Tokens not sent, tokens that summaries cost, and turns that lost text.

    By day, user, chat or model. Amounts are tokens times the prices in force now
    (`PRECIS_PRICES`), or null without any.
    """
    return await worth.read(
        runtime.database.reads, runtime.settings, operator.tenant, by, first_day, last_day, limit
    )
