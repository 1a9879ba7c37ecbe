"""What is run once, by people or by a scheduler: `precis migrate`, `retention`, `reconcile`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from service import __version__
from service.cli import shell
from service.cli.chats import Tenant, with_tenant
from service.cli.output import print_json, shown
from service.names import FIRST_TENANT, MOST_MISSING

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from service.settings import Settings
    from service.usecases.operate import Operator
    from service.usecases.reconcile import Reconciled
    from service.usecases.retain import Removed


def migrate() -> None:
    """Brings the database to the schema of this version."""
    from service.dumps import before_migration
    from service.storage.database import migrate as migrate_database

    async def work() -> None:
        current = shell.settings()
        if current.database_url:  # Redis has nothing to migrate, and need not be there
            url = current.database_url.get_secret_value()
            await before_migration(url, current)
            await migrate_database(url)
        else:
            await _migrate_embedded(current)

    shell.run(work())
    shell.console.print(f"The database is at the schema of precis {__version__}.")


def retention(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and delete nothing.")] = False,
    as_json: shell.Json = False,
) -> None:
    """Deletes what is older than the PRECIS_KEEP_* settings, even when PRECIS_RETENTION is off.

    Workers do the same once an hour.
    """
    from service.usecases.retain import remove_old

    async def work() -> Removed:
        current = shell.settings()
        async with shell.database(current) as database:
            return await remove_old(database.engine, current, dry=dry_run)

    removed = asdict(shell.run(work()))
    if as_json:
        print_json(removed)
        return
    table = Table("kind", Column("found" if dry_run else "removed", justify="right"))
    for kind, count in removed.items():
        table.add_row(kind, f"{count:,}")
    shell.console.print(table)


def reconcile(
    url: Annotated[
        str | None, typer.Option(help="Address of Open WebUI; or set PRECIS_OPENWEBUI_URL.")
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(help="An admin's API key; or set PRECIS_OPENWEBUI_KEY."),
    ] = None,
    most: Annotated[
        int, typer.Option(min=0, max=100, help="Percent of the chats that may go, at most.")
    ] = MOST_MISSING,
    tenant: Tenant = FIRST_TENANT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask, and delete nothing.")] = False,
    as_json: shell.Json = False,
) -> None:
    """Deletes the chats that Open WebUI has no more; a worker does so once a night."""
    from service.clients.openwebui import signed_in
    from service.usecases import reconcile as reconciling

    current = shell.settings()
    where = url or current.openwebui_url
    key = api_key or current.openwebui_key.get_secret_value()
    if not (where and key):
        raise typer.BadParameter("set PRECIS_OPENWEBUI_URL and PRECIS_OPENWEBUI_KEY, or pass them")

    async def work(engine: AsyncEngine, by: Operator) -> Reconciled:
        async with signed_in(where, key) as webui:
            return await reconciling.reconcile(engine, webui, by, most=most, dry=dry_run)

    found = with_tenant(tenant, work)
    if as_json:
        print_json(found)
        return
    for chat in found.missing:
        typer.echo(shown(chat))
    what = "would be deleted" if dry_run else "were deleted"
    shell.console.print(f"{len(found.missing)} of {found.asked} chats {what}.", highlight=False)


async def _migrate_embedded(current: Settings) -> None:
    """Embedded servers are migrated when they start; those of a running service were."""
    from service.runtime import servers
    from service.urls import announced

    if announced(current) is None:
        async with servers(current):
            pass
