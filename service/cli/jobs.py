"""`precis jobs`: work that is due, waiting or dead, and why."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import shell
from service.cli.chats import Tenant, operator_of, with_tenant
from service.cli.output import print_json, print_rows
from service.names import FIRST_TENANT, STATES, State

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from service.storage.breakers import OpenBreaker
    from service.storage.jobs import Job
    from service.usecases.operate import Operator

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Work that is due, waiting for another attempt, or dead.",
)


@app.command("list")
def list_jobs(
    state: Annotated[State | None, typer.Option(help="Only work in this state.")] = None,
    tenant: Tenant = FIRST_TENANT,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_json: shell.Json = False,
) -> None:
    """Lists chats with work, and why it waits."""
    from service.usecases import monitor

    async def work() -> list[Job]:
        async with shell.database(shell.settings()) as database:
            by = await operator_of(database.engine, tenant)
            states = [state] if state else STATES
            return await monitor.list_jobs(database.reads, by.tenant, states, limit=limit)

    found = shell.run(work())
    if as_json:
        print_json(found)
        return
    rows = [
        (
            job.chat_id,
            job.state,
            str(job.attempts),
            _moment(job.dead_at or job.due_at),
            job.worker or "",
            job.last_error or "",
        )
        for job in found
    ]
    columns = ("chat", "state", "attempts", "since", "worker", "reason")
    print_rows(shell.console, columns, rows, least=("attempts", "worker", "since"))


def _moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else ""


@app.command()
def retry(
    chat: Annotated[
        str | None, typer.Argument(callback=shell.text, help="Open WebUI's chat id.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="All dead work of the tenant.")] = False,
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Makes the work on a chat due now, and forgets its failed attempts."""
    from service.usecases import operate

    if (chat is None) is not dead:
        raise typer.BadParameter("Pass a chat id or --dead.")

    async def work(engine: AsyncEngine, by: Operator) -> list[OpenBreaker]:
        if chat is None:
            count = await operate.retry_dead(engine, by)
            shell.console.print(f"{count} chats are due again.")
        else:
            await operate.retry(engine, by, chat)
            shell.console.print("The work is due now.")
        return await operate.open_breakers(engine)

    for breaker in with_tenant(tenant, work):
        shell.console.print(
            f"The circuit breaker of {breaker.name} is open until {breaker.until:%H:%M:%S} UTC:"
            " it is not asked before, unless `precis summariser reset` closes it.",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
