"""`precis config` and `precis healthcheck`. Machines run them often: they import little."""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Annotated

import typer

from service.cli import shell
from service.cli.output import print_json
from service.errors import PrecisError

_PATIENCE = 5  # seconds
_LONGEST = 1000  # bytes that are shown of an answer


def config(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page of all settings instead.")
    ] = False,
    env: Annotated[
        bool, typer.Option("--env", help="Print an example of a .env file instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Prints the settings in force, secrets hidden."""
    from service.settings import PREFIX, as_env, as_markdown, redacted

    if markdown or env:
        typer.echo(as_markdown() if markdown else as_env(), nl=False)
        return
    current = redacted(shell.settings())
    if as_json:
        print_json({f"{PREFIX}{name.upper()}": value for name, value in current.items()})
        return
    for name, value in current.items():
        typer.echo(f"{PREFIX}{name.upper()}={value}")


def healthcheck() -> None:
    """Exits with 0 when the service at PRECIS_HOST and PRECIS_PORT is ready, else with 1.

    For Docker and monitors.
    """
    current = shell.settings()
    every = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - asked for, not bound
    host = every.get(current.host, current.host)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{current.port}/readyz"
    asked = HTTPConnection(host, current.port, timeout=_PATIENCE)
    try:
        asked.request("GET", "/readyz")
        answer = asked.getresponse()
        text = answer.read(_LONGEST).decode(errors="replace")
    except (OSError, HTTPException) as error:
        shell.fail(
            PrecisError(
                f"no answer from {url}: {error!r}. Is `precis serve` running, and are PRECIS_HOST"
                " and PRECIS_PORT the same for both?"
            )
        )
    finally:
        asked.close()
    if answer.status != HTTPStatus.OK:
        shell.fail(PrecisError(f"{url} answers {answer.status}: {text}"))
