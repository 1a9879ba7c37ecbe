"""`precis stats`: tokens not sent, what summaries cost, and what became of requests."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import shell
from service.cli.chats import Tenant, operator_of
from service.cli.output import print_json, print_rows
from service.names import FIRST_TENANT, MOST_PARTS, By

if TYPE_CHECKING:
    from service.storage.worth import Sums
    from service.usecases.worth import Asked, Breakdown, Worth

_COLUMNS = ("not sent", "saved", "read", "written", "spent", "compressed", "truncated", "away")


def stats(
    by: Annotated[By, typer.Option(help="What a line is; days are in UTC.")] = "day",
    first_day: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d"], help="First day; by default 30 days."),
    ] = None,
    last_day: Annotated[
        datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Last day.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(callback=shell.text, help="Only of this user's id.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(callback=shell.text, help="Only of chats with this model.")
    ] = None,
    tenant: Tenant = FIRST_TENANT,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_PARTS,
            help="Most lines: the newest days, or those with the most tokens. 100, all as CSV.",
        ),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a table for spreadsheets.")] = False,
    as_json: shell.Json = False,
) -> None:
    """Shows tokens not sent, what summaries cost, and what became of requests."""
    from service.usecases import worth

    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json are two ways to print the same")
    asked = worth.Asked(by, _day(first_day), _day(last_day), user, model)
    lines = limit or (MOST_PARTS if as_csv else 100)
    overview, found = shell.run(_read(tenant, asked, lines))
    if as_json:
        print_json({"overview": overview, "breakdown": found})
    elif as_csv:
        typer.echo(worth.as_csv(found), nl=False)
    else:
        _print(overview, found)


def _day(given: datetime | None) -> date | None:
    return given.date() if given else None


async def _read(tenant: str, asked: Asked, limit: int) -> tuple[Worth, Breakdown]:
    from service.usecases import worth

    settings = shell.settings()
    async with shell.database(settings) as database:
        by = await operator_of(database.engine, tenant)
        return (
            await worth.overview(database.reads, by.tenant, settings),
            await worth.breakdown(database.reads, by.tenant, asked, limit, settings),
        )


def _print(overview: Worth, found: Breakdown) -> None:
    from service.usecases.worth import worth_lines

    for line in worth_lines(overview):
        shell.console.print(line, highlight=False, soft_wrap=True)
    if found.unpriced:
        named = ", ".join(found.unpriced)
        shell.console.print(
            f"No price in PRECIS_PRICES: {named}", highlight=False, markup=False, soft_wrap=True
        )
    rows = [_row(part.name, part.sums, found.currency) for part in found.parts]
    rows.append(_row("total", found.total, found.currency))
    least = ("written", "read", "compressed", "away")
    print_rows(shell.console, (found.by, *_COLUMNS), rows, least=least)
    if found.more:
        shell.console.print(f"More than {len(found.parts)}; --limit shows more, the total has all.")


def _row(name: str, sums: Sums, currency: str) -> tuple[str, ...]:
    from service.usecases.worth import amount

    return (
        name or "(unknown)",
        f"{sums.tokens_not_sent:,}",
        amount(sums.saved, currency),
        f"{sums.tokens_read:,}",
        f"{sums.tokens_written:,}",
        amount(sums.spent, currency),
        f"{sums.compressed:,}",
        f"{sums.truncated + sums.truncated_with_summary:,}",
        f"{sums.away:,}",
    )
