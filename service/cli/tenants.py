"""`precis tenants`: what is done to a whole tenant."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli import shell
from service.errors import NotFound

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Erase a tenant.")


@app.callback()
def tenants() -> None:
    """Typer would otherwise take the only command for the whole application."""


@app.command()
def erase(
    name: Annotated[str, typer.Argument(help="The tenant, as in `precis keys list`.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Deletes a tenant: its keys, chats, audit and secrets.

    What is sealed for it in a backup without the secrets can never be opened again.
    """
    from service.storage import keys

    if not yes:
        typer.confirm(f"Delete everything of tenant {name!r}?", abort=True)

    async def work() -> None:
        async with (
            shell.database(shell.settings()) as database,
            database.engine.begin() as connection,
        ):
            if not await keys.erase_tenant(connection, name):
                raise NotFound(f"there is no tenant {name!r}; see `precis keys list`")

    shell.run(work())
    shell.console.print(f"Tenant {name!r} is erased.", highlight=False)
