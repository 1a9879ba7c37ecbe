"""`precis summariser`: one call of the summariser, and its circuit breaker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import shell
from service.cli.chats import Tenant, with_tenant
from service.cli.output import print_json
from service.errors import SummariserError
from service.names import FIRST_TENANT

if TYPE_CHECKING:
    from service.usecases.operate import Trial

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="The summariser and its circuit breaker."
)


@app.command("test")
def ask_once(as_json: shell.Json = False) -> None:
    """Asks the summariser of the settings once, and prints how long it took and the tokens.

    The built-in text that it is asked about is two sentences long. Exits with 1 when the call
    fails, with the reason.
    """
    from service.clients.summarisers import client, configured
    from service.usecases import operate

    current = shell.settings()

    async def ask() -> Trial:
        async with client(current) as http:
            return await operate.ask_once(configured(current, http))

    trial = shell.run(ask())
    if trial.error:
        shell.fail(SummariserError(trial.error))
    if as_json:
        print_json(trial)
        return
    shell.console.print(
        f"{trial.summariser} answered in {trial.seconds:.1f} s:"
        f" {_count(trial.tokens_read)} tokens read, {_count(trial.tokens_written)} written,"
        f" finish {trial.finish}.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    shell.console.print(trial.text or "The answer is empty.", markup=False, highlight=False)


@app.command()
def reset(
    name: Annotated[
        str | None,
        typer.Argument(callback=shell.text, help="As `precis status` names it; all by default."),
    ] = None,
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Closes circuit breakers at once, and forgets endpoints that nobody asks any more."""
    from service.usecases import operate

    for closed in with_tenant(
        tenant, lambda engine, by: operate.reset_breakers(engine, by, name, on_server=True)
    ):
        shell.console.print(f"Reset: {closed}", markup=False, highlight=False, soft_wrap=True)


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"
