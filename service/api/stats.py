"""Operators' routes for what Precis is worth: tokens not sent and what summaries cost."""

import asyncio
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel

from service.api.deps import OperatorDep, RuntimeDep
from service.api.wire import Id
from service.names import MOST_PARTS, By
from service.runtime import Runtime
from service.usecases import operate, worth
from service.usecases.operate import Operator
from service.usecases.worth import Asked, Breakdown, Worth

router = APIRouter(prefix="/v1", tags=["operators"])


class StatsAnswer(BaseModel):
    """All that is kept, in short, and what was asked for in parts."""

    overview: Worth
    breakdown: Breakdown


# Asynchronous: FastAPI runs other dependencies in a thread.
async def asked(
    by: Annotated[By, Query(description="What a part is; days are in UTC.")] = "day",
    first_day: Annotated[
        date | None, Query(alias="from", description="First day; by default the last 30 days.")
    ] = None,
    last_day: Annotated[date | None, Query(alias="to", description="Last day.")] = None,
    user: Annotated[Id | None, Query(description="Only of this user's id.")] = None,
    model: Annotated[Id | None, Query(description="Only of chats with this model.")] = None,
) -> Asked:
    """What the query asks for."""
    return Asked(by, first_day, last_day, user, model)


_Asked = Annotated[Asked, Depends(asked)]
_Limit = Annotated[
    int,
    Query(
        ge=1,
        le=MOST_PARTS,
        description="Most parts: the newest days, or those with the most tokens.",
    ),
]


@router.get("/stats")
async def get_stats(
    operator: OperatorDep, runtime: RuntimeDep, asked: _Asked, limit: _Limit = 100
) -> StatsAnswer:
    """Tokens not sent, what summaries cost, and what became of requests.

    `overview` is of today, 30 days and all that is kept; `breakdown` is by day, user, model or
    chat. Amounts are tokens times the prices in force now (`PRECIS_PRICES`), or null without any.
    """
    reads, settings = runtime.database.reads, runtime.settings
    return StatsAnswer(
        overview=await worth.overview(reads, operator.tenant, settings),
        breakdown=await worth.breakdown(reads, operator.tenant, asked, limit, settings),
    )


@router.get(
    "/stats.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "The parts, one on each line."}},
)
async def get_stats_as_csv(
    operator: OperatorDep, runtime: RuntimeDep, asked: _Asked, limit: _Limit = MOST_PARTS
) -> Response:
    """The parts of `GET /v1/stats` as a table for spreadsheets."""
    return await exported(runtime, operator, asked, limit)


async def exported(runtime: Runtime, by: Operator, asked: Asked, limit: int) -> Response:
    """A table for spreadsheets, which the audit log notes; the pages give it too."""
    reads, settings = runtime.database.reads, runtime.settings
    found = await worth.breakdown(reads, by.tenant, asked, limit, settings)
    await operate.note_export(runtime.database.engine, by, asked.by)
    # In a thread, because thousands of lines take tens of milliseconds.
    table = await asyncio.to_thread(worth.as_csv, found)
    name = {"Content-Disposition": f'attachment; filename="precis-by-{found.by}.csv"'}
    return Response(table, media_type="text/csv; charset=utf-8", headers=name)
