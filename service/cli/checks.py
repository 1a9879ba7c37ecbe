"""`precis config` and `precis healthcheck`. Machines run them often: they import little."""

from typing import Annotated

import httpx
import typer

from service.cli import shell
from service.errors import PrecisError
from service.settings import PREFIX, as_env, as_markdown, redacted


def config(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page of all settings instead.")
    ] = False,
    env: Annotated[
        bool, typer.Option("--env", help="Print an example of a .env file instead.")
    ] = False,
) -> None:
    """Prints the settings in force, secrets hidden."""
    if markdown or env:
        typer.echo(as_markdown() if markdown else as_env(), nl=False)
        return
    for name, value in redacted(shell.settings()).items():
        typer.echo(f"{PREFIX}{name.upper()}={value}")


def healthcheck() -> None:
    """Ends with status 0 when the service of these settings is ready, for Docker and the like."""
    current = shell.settings()
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(current.host, current.host)
    url = httpx.URL(scheme="http", host=host, port=current.port, path="/readyz")
    try:
        answer = httpx.get(url, timeout=5, trust_env=False)
    except httpx.HTTPError as error:
        shell.fail(PrecisError(f"no answer from {url}: {error!r}"))
    if answer.status_code != httpx.codes.OK:
        shell.fail(PrecisError(f"{url} answers {answer.status_code}: {answer.text[:1000]}"))
