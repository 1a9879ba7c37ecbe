"""`precis jobs`: work that is due, waiting or dead, and why."""

from typing import Annotated

import typer
from rich.table import Table

from service.cli import shell
from service.cli.chats import Tenant, operator_of, with_tenant
from service.cli.output import add_row, id_column
from service.runtime import FIRST_TENANT
from service.storage.jobs import STATES, Job, State
from service.usecases import monitor, operate

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
) -> None:
    """Lists chats with work, and why it waits."""

    async def work() -> list[Job]:
        async with shell.database(shell.settings()) as database:
            by = await operator_of(database.engine, tenant)
            states = [state] if state else STATES
            return await monitor.list_jobs(database.reads, by.tenant, states, limit=limit)

    table = Table(
        id_column(shell.console.width),
        "state",
        "attempts",
        "since",
        "worker",
        "reason",
    )
    for job in shell.run(work()):
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
    dead: Annotated[bool, typer.Option("--dead", help="All dead work of the tenant.")] = False,
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Makes the work on a chat due now, and forgets its failed attempts."""
    if (chat is None) is not dead:
        raise typer.BadParameter("Pass a chat id or --dead.")
    if chat is None:
        count = with_tenant(tenant, operate.retry_dead)
        shell.console.print(f"{count} chats are due again.")
    else:
        with_tenant(tenant, lambda engine, by: operate.retry(engine, by, chat))
        shell.console.print("The work is due now.")
