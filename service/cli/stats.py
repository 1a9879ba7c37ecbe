"""`precis stats`: tokens not sent, what summaries cost, and requests that lost text."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import shell
from service.cli.chats import Tenant, operator_of
from service.cli.output import print_json, print_rows
from service.names import FIRST_TENANT, MOST_PARTS, By

if TYPE_CHECKING:
    from service.storage.worth import Figures
    from service.usecases.worth import Worth

_COLUMNS = ("not sent", "saved", "read", "spent", "truncated")


def stats(
    by: Annotated[By, typer.Option(help="What a line is; days are in UTC.")] = "day",
    first_day: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d"], help="First day; by default 30 days."),
    ] = None,
    last_day: Annotated[
        datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Last day.")
    ] = None,
    tenant: Tenant = FIRST_TENANT,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_PARTS, help="The newest days, or the most tokens.")
    ] = 100,
    as_json: shell.Json = False,
) -> None:
    """Shows tokens not sent, what summaries cost, and requests that lost text."""
    worth = shell.run(_read(tenant, by, _day(first_day), _day(last_day), limit))
    if as_json:
        print_json(worth)
    else:
        _print(worth)


def _day(given: datetime | None) -> date | None:
    return given.date() if given else None


async def _read(
    tenant: str, by: By, first_day: date | None, last_day: date | None, limit: int
) -> Worth:
    from service.usecases import worth

    settings = shell.settings()
    async with shell.database(settings) as database:
        operator = await operator_of(database.engine, tenant)
        return await worth.read(
            database.reads, settings, operator.tenant, by, first_day, last_day, limit
        )


def _print(worth: Worth) -> None:
    rows = [_row(part.name or "(deleted or unknown)", part.figures) for part in worth.parts]
    rows.append(_row("total", worth.total))
    print_rows(shell.console, (worth.by, *_COLUMNS), rows, least=("read", "truncated"))
    if worth.more:
        shell.console.print(f"More than {len(worth.parts)}; --limit shows more, the total has all.")


def _row(name: str, figures: Figures) -> tuple[str, ...]:
    from service.usecases.worth import money

    return (
        name,
        f"{figures.tokens_not_sent:,}",
        money(figures.saved),
        f"{figures.tokens_read:,}",
        money(figures.spent),
        f"{figures.truncated:,}",
    )
