"""`precis status`: the queue, running work and circuit breakers.

Apart from `jobs`, whose modules for corrections bring the whole API: monitors run this often.
tests/cli/test_imports.py holds that it stays light.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from service.cli import shell
from service.cli.output import add_row, print_json, print_table

if TYPE_CHECKING:
    from service.usecases.monitor import Status

_LOOK = 0.2  # seconds between two looks of `status --wait`


def status(
    wait: Annotated[
        float | None,
        typer.Option(help="Wait until no work is left. Exits with 1 after this many seconds."),
    ] = None,
    as_json: shell.Json = False,
) -> None:
    """Shows the queue of all tenants, running work and circuit breakers.

    Exits with 1 when work is due for two minutes and nobody works.
    """
    seen = shell.run(_status(wait))
    if as_json:
        print_json(seen)
    else:
        _print(seen)
    if seen.stalled or (wait is not None and not seen.idle):
        raise typer.Exit(1)


_UNPROTECTED = (
    "row-level security is off: `precis migrate` says why (docs/howto/row-level-security.md)"
)


async def _status(wait: float | None) -> Status:
    from service.settings import warnings
    from service.usecases import monitor

    until = time.monotonic() + (wait or 0)
    settings = shell.settings()
    async with shell.reads(settings) as reads:
        while True:
            seen = await monitor.status(reads, None, settings, warnings(settings))
            if seen.idle or time.monotonic() >= until:
                return seen
            await asyncio.sleep(_LOOK)


def _print(seen: Status) -> None:
    from service.usecases.worth import money

    queue = seen.queue
    shell.console.print(
        f"{queue.due} due (the oldest for {queue.oldest_due_seconds:.0f} s),"
        f" {queue.working} working,"
        f" {queue.waiting} waiting, {queue.dead} dead",
        highlight=False,
    )
    for warning in seen.warnings:
        shell.console.print(f"[yellow]{escape(warning)}.[/]", highlight=False, soft_wrap=True)
    month = seen.worth.total
    shell.console.print(
        f"In 30 days {month.tokens_not_sent:,} tokens were not sent ({money(month.saved)}),"
        f" and {month.tokens_read:,} were read for summaries ({money(month.spent)})",
        highlight=False,
        soft_wrap=True,
    )
    if seen.encryption_keys:
        shell.console.print(_encryption(seen), highlight=False, soft_wrap=True)
    if not seen.row_level_security:
        shell.console.print(_UNPROTECTED, highlight=False, soft_wrap=True)
    for table in (_leases(seen), _breakers(seen)):
        if table.row_count:
            print_table(shell.console, table)


def _encryption(seen: Status) -> str:
    parts = [
        f"about {one.rows:,} rows {'plain' if one.key is None else f'with key {one.key}'}"
        for one in seen.sealed
    ]
    keys = seen.encryption_keys
    listed = f"encryption key{'s' if len(keys) > 1 else ''} {', '.join(map(str, keys))}"
    told = f"{listed}: {', '.join(parts) or 'nothing is stored'}"
    if len(keys) == 1 and not any(one.key is None for one in seen.sealed):
        return told
    return f"{told}; `precis keys rotate-encryption` brings all to one"


def _leases(seen: Status) -> Table:
    leases = Table("chat", "model", "worker", "lease until", title="running work")
    for job in seen.leases:
        add_row(leases, job.chat_id, job.model, job.worker or "", f"{job.lease_until:%H:%M:%S}")
    return leases


def _breakers(seen: Status) -> Table:
    breakers = Table(
        "summariser", "breaker", "consecutive failures", "until", "last error", title="summarisers"
    )
    for one in seen.endpoints:
        until = f"{one.open_until:%H:%M:%S}" if one.open_until else ""
        add_row(breakers, one.name, one.state, str(one.failures), until, one.last_error or "")
    return breakers
