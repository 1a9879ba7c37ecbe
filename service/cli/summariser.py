"""`precis summariser`: one call of the summariser, and its circuit breaker."""

import time
from typing import Annotated

import httpx
import typer

from service.cli import shell
from service.cli.chats import Tenant, with_tenant
from service.cli.output import print_json
from service.clients.summarisers import configured
from service.errors import ConfigurationError
from service.runtime import FIRST_TENANT
from service.settings import PREFIX
from service.summarising.reading import Excerpt, Reading, Reply
from service.usecases import operate

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="The summariser and its circuit breaker."
)

_READING = Reading(
    previous=(),
    excerpts=(
        Excerpt("user", "[1.1] The pump in cellar 3 has to run at 40 Hz until Friday."),
        Excerpt("assistant", "[1.2] Noted: the pump in cellar 3 runs at 40 Hz until Friday."),
    ),
    summary_tokens=200,
)
"""Two sentences of nobody's chat."""


@app.command("test")
def ask_once(as_json: shell.Json = False) -> None:
    """Asks the summariser of the settings once, and prints how long it took and the tokens.

    The built-in text that it is asked about is two sentences long. Exits with 1 when the call
    fails, with the reason.
    """
    current = shell.settings()

    async def ask() -> tuple[str, Reply, float]:
        async with httpx.AsyncClient() as http:
            summariser = configured(current, http)
            if summariser is None:
                raise ConfigurationError(
                    f"{PREFIX}SUMMARISER is extractive: code writes summaries, and there is nobody"
                    " to ask"
                )
            began = time.monotonic()
            reply = await summariser.summarise(_READING)
            return summariser.name, reply, time.monotonic() - began

    name, reply, seconds = shell.run(ask())
    if as_json:
        print_json(
            {
                "summariser": name,
                "seconds": round(seconds, 2),
                "tokens_read": reply.prompt_tokens,
                "tokens_written": reply.completion_tokens,
                "finish": reply.finish.value,
                "text": reply.text,
            }
        )
        return
    shell.console.print(
        f"{name} answered in {seconds:.1f} s: {_count(reply.prompt_tokens)} tokens read,"
        f" {_count(reply.completion_tokens)} written, finish {reply.finish.value}.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    shell.console.print(reply.text or "The answer is empty.", markup=False, highlight=False)


@app.command()
def reset(
    name: Annotated[
        str | None,
        typer.Argument(callback=shell.text, help="As `precis status` names it; all by default."),
    ] = None,
    tenant: Tenant = FIRST_TENANT,
) -> None:
    """Closes circuit breakers at once, and forgets endpoints that nobody asks any more."""
    for closed in with_tenant(tenant, lambda engine, by: operate.reset_breakers(engine, by, name)):
        shell.console.print(f"Reset: {closed}", markup=False, highlight=False, soft_wrap=True)


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"
