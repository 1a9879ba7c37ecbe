"""`precis status`: the queue, running work and circuit breakers.

Apart from `jobs`, whose modules for corrections bring the whole API: monitors run this often.
tests/cli/test_imports.py holds that it stays light.
"""

import asyncio
import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from service.cli import shell
from service.cli.output import add_row
from service.usecases import monitor
from service.usecases.monitor import Status

_LOOK = 0.2  # seconds between two looks of `status --wait`


def status(
    wait: Annotated[
        float | None,
        typer.Option(help="Wait until no work is left. Exits with 1 after this many seconds."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shows the queue of all tenants, running work, and the summarisers' circuit breakers."""
    seen = shell.run(_status(wait))
    if as_json:
        typer.echo(json.dumps(asdict(seen), default=str, indent=2))
    else:
        _print(seen)
    if wait is not None and not seen.idle:
        raise typer.Exit(1)


async def _status(wait: float | None) -> Status:
    until = time.monotonic() + (wait or 0)
    async with shell.reads(shell.settings()) as reads:
        while True:
            seen = await monitor.status(reads, None)
            if seen.idle or time.monotonic() >= until:
                return seen
            await asyncio.sleep(_LOOK)


def _print(seen: Status) -> None:
    queue = seen.queue
    shell.console.print(
        f"{queue.due} due (the oldest for {queue.oldest_due_seconds:.0f} s),"
        f" {queue.working} working,"
        f" {queue.waiting} waiting, {queue.dead} dead",
        highlight=False,
    )
    leases = Table("chat", "model", "worker", "lease until", title="running work")
    for job in seen.leases:
        add_row(leases, job.chat_id, job.model, job.worker or "", f"{job.lease_until:%H:%M:%S}")
    breakers = Table(
        "summariser", "breaker", "consecutive failures", "until", "last error", title="summarisers"
    )
    for one in seen.endpoints:
        until = f"{one.open_until:%H:%M:%S}" if one.open_until else ""
        add_row(breakers, one.name, one.state, str(one.failures), until, one.last_error or "")
    for table in (leases, breakers):
        if table.row_count:
            shell.console.print(table)
