"""`precis jobs` and `precis status`: the work that is due, who does it, what failed and why."""

import asyncio
import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table

from service.cli import shell
from service.cli.chats import Tenant, with_tenant
from service.cli.output import add_row
from service.runtime import FIRST_TENANT
from service.storage.jobs import STATES, State
from service.usecases import inspect, operate
from service.usecases.inspect import Status

app = typer.Typer(no_args_is_help=True, help="Work that is due, put off or dead.")

_LOOK = 0.2  # seconds between two looks of `status --wait`


@app.command("list")
def list_jobs(
    state: Annotated[State | None, typer.Option(help="Only these.")] = None,
    tenant: Tenant = FIRST_TENANT,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
) -> None:
    """Lists chats with work, and why it waits."""
    table = Table(
        Column("chat", overflow="fold", min_width=36),
        "state",
        "attempts",
        "since",
        "worker",
        "reason",
    )
    found = with_tenant(
        tenant,
        lambda engine, by: inspect.list_jobs(
            engine, by.tenant, [state] if state else STATES, limit=limit
        ),
    )
    for job in found:
        since = job.dead_at or job.due_at
        moment = f"{since:%Y-%m-%d %H:%M:%S}" if since else ""
        told = (moment, job.worker or "", job.last_error or "")
        add_row(table, job.chat_id, job.state, str(job.attempts), *told)
    shell.console.print(table)


@app.command()
def retry(
    chat: Annotated[
        str | None, typer.Argument(callback=shell.text, help="Open WebUI's chat id.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="All dead ones of the tenant.")] = False,
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Makes work due now, whatever failed before."""
    if (chat is None) is not dead:
        raise typer.BadParameter("name a chat, or say --dead")
    if chat is None:
        count = with_tenant(tenant, operate.retry_dead)
        shell.console.print(f"{count} chats are due again.")
    else:
        with_tenant(tenant, lambda engine, by: operate.retry(engine, by, chat))
        shell.console.print("It is due now.")


def status(
    wait: Annotated[
        float | None, typer.Option(help="Return when nothing is due; 1 after so many seconds.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Shows the queue of all tenants, who works on what, and the breakers of the summarisers."""
    seen = shell.run(_status(wait))
    if as_json:
        typer.echo(json.dumps(asdict(seen), default=str, indent=2))
    else:
        _print(seen)
    if wait is not None and not seen.idle:
        raise typer.Exit(1)


async def _status(wait: float | None) -> Status:
    until = time.monotonic() + (wait or 0)
    async with shell.database(shell.settings()) as database:
        while True:
            seen = await inspect.status(database.engine, None)
            if seen.idle or time.monotonic() >= until:
                return seen
            await asyncio.sleep(_LOOK)


def _print(seen: Status) -> None:
    queue = seen.queue
    shell.console.print(
        f"{queue.due} due (the oldest for {queue.oldest_due_seconds:.0f} s), {queue.working} worked on,"
        f" {queue.waiting} put off, {queue.dead} dead",
        highlight=False,
    )
    leases = Table("chat", "model", "worker", "lease until", title="worked on")
    for job in seen.leases:
        add_row(leases, job.chat_id, job.model, job.worker or "", f"{job.lease_until:%H:%M:%S}")
    breakers = Table(
        "summariser", "breaker", "failures in a row", "until", "last error", title="summarisers"
    )
    for one in seen.endpoints:
        until = f"{one.open_until:%H:%M:%S}" if one.open_until else ""
        add_row(breakers, one.name, one.state, str(one.failures), until, one.last_error or "")
    for table in (leases, breakers):
        if table.row_count:
            shell.console.print(table)
