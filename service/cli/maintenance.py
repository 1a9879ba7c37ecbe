"""`precis migrate` and `precis retention`: what is run once, by people or by a scheduler."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table

from service import __version__
from service.cli import shell
from service.cli.output import print_json
from service.dumps import before_migration
from service.runtime import servers
from service.settings import Settings
from service.storage.database import migrate as migrate_database
from service.urls import announced
from service.usecases.retain import Removed, remove_old


def migrate() -> None:
    """Brings the database to the schema of this version."""

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


async def _migrate_embedded(current: Settings) -> None:
    """Embedded servers are migrated when they start; those of a running service were."""
    if announced(current) is None:
        async with servers(current):
            pass
