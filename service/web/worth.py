"""What Precis is worth: by day, user, chat or model, and as CSV."""

import asyncio
import csv
import io
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from service.api.deps import RuntimeDep
from service.api.stats import ByQuery, FirstDay, LastDay
from service.names import MOST_PARTS
from service.storage.worth import Figures
from service.usecases import worth
from service.usecases.worth import Worth
from service.web.page import PageRoute, render
from service.web.session import SignedInDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_SHOWN: Final = 100
# With these, spreadsheets begin a formula, some of them after spaces too.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_COLUMNS: Final = [field.name for field in fields(Figures)]


@router.get("/worth")
async def show(
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    by: ByQuery = "day",
    first_day: FirstDay = None,
    last_day: LastDay = None,
    as_csv: Annotated[bool, Query(alias="csv")] = False,
) -> Response:
    """The newest days, or the users, chats or models with the most tokens; all of them as CSV."""
    limit = MOST_PARTS if as_csv else _SHOWN
    whole = await worth.read(
        runtime.database.reads,
        runtime.settings,
        signed_in.by.tenant,
        by,
        first_day,
        last_day,
        limit,
    )
    if not as_csv:
        return render("worth.html", who=signed_in, place="/", worth=whole)
    # In a thread, because thousands of lines take tens of milliseconds.
    content = await asyncio.to_thread(table, whole)
    name = {"Content-Disposition": f'attachment; filename="precis-by-{by}.csv"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=name)


def table(whole: Worth) -> str:
    """The parts as CSV, without the total."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([whole.by, *_COLUMNS])
    for part in whole.parts:
        writer.writerow([_harmless(part.name), *_cells(part.figures)])
    return out.getvalue()


def _cells(figures: Figures) -> Iterator[str]:
    for name in _COLUMNS:
        value = getattr(figures, name)
        # Without an exponent, which some spreadsheets read as text.
        yield f"{value:.6f}" if isinstance(value, float) else str("" if value is None else value)


def _harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula: ids and models are named by others."""
    return f"'{text}" if text.lstrip().startswith(_FORMULA) or text[:1].isspace() else text
