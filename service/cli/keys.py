"""`precis keys`: API keys of tenants."""

from typing import Annotated

import typer

from service.cli import shell
from service.cli.chats import CLI
from service.cli.output import print_json, print_rows
from service.runtime import FIRST_TENANT
from service.storage import keys
from service.storage.keys import Scope
from service.usecases import keys as usecases

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="API keys: shown once, stored as hashes."
)


@app.command()
def create(
    scope: Annotated[
        Scope,
        typer.Option(help="`filter`: for the filter in Open WebUI; `operator`: for the REST API."),
    ],
    name: Annotated[
        str, typer.Option(callback=shell.name, help="A name that `precis keys list` shows.")
    ] = "",
    tenant: Annotated[
        str,
        typer.Option(callback=shell.name, help="Tenant (one Open WebUI); created if it is new."),
    ] = FIRST_TENANT,
) -> None:
    """Makes a key and prints it."""

    async def work() -> str:
        async with shell.database(shell.settings()) as database:
            made = await usecases.create(database.engine, tenant, CLI, scope, name)
            return made.key

    typer.echo(shell.run(work()))


@app.command("list")
def list_keys(as_json: shell.Json = False) -> None:
    """Lists all keys, without the keys themselves."""

    async def work() -> list[keys.Key]:
        async with (
            shell.database(shell.settings()) as database,
            database.engine.connect() as connection,
        ):
            return await keys.everyone(connection)

    found = shell.run(work())
    if as_json:
        print_json(found)
        return
    rows = [
        (
            str(key.id),
            f"{key.prefix}…",
            key.scope,
            key.tenant_name,
            key.name,
            f"{key.created_at:%Y-%m-%d %H:%M}",
            f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "",
        )
        for key in found
    ]
    columns = ("id", "key", "scope", "tenant", "name", "created", "revoked")
    print_rows(shell.console, columns, rows, least=("created", "tenant"))


@app.command()
def revoke(
    identity: Annotated[
        int, typer.Argument(metavar="ID", min=1, max=shell.LAST_ID, help="From `precis keys list`.")
    ],
) -> None:
    """Revokes a key; running services reject it within ten seconds."""

    async def work() -> None:
        async with shell.database(shell.settings()) as database:
            await usecases.revoke_any(database.engine, CLI, identity)

    shell.run(work())
    shell.console.print(f"Key {identity} is revoked.")
