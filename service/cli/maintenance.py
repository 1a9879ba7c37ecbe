"""Work on the database itself: `precis migrate`, `retention`, `reconcile`, `tenants`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from service import __version__
from service.cli import client, shell
from service.cli.output import as_json, print_json, print_object, say
from service.errors import ConfigurationError, NotFound
from service.names import FIRST_TENANT, MOST_MISSING

if TYPE_CHECKING:
    from service.settings import Settings
    from service.usecases.reconcile import Reconciliation
    from service.usecases.retain import RemovedRows

_ACTOR: Final = "cli"
"""Who acts, in the audit log, when one of these commands does."""


@click.command()
def migrate() -> None:
    """Bring the database to the schema of this version.

    Where there is no operator key yet, it also stores that of PRECIS_KEY.
    """
    from service.embedded.dumps import dump_before_migration
    from service.storage.database import migrate as migrate_database

    async def work() -> bool:
        current = shell.settings()
        if current.database_url:  # Redis has nothing to migrate, and need not be there
            url = current.database_url.get_secret_value()
            await dump_before_migration(url, current)
            await migrate_database(url)
            return await _store_first_key(url, current)
        async with shell.migrate_and_connect(current):
            return False

    stored = shell.run(work())
    say(f"The database is at the schema of precis {__version__}.")
    if stored:
        say("The key of PRECIS_KEY is stored as the first operator key.")


async def _store_first_key(url: str, current: Settings) -> bool:
    from service.storage.database import connect
    from service.usecases import keys

    key = client.read_variable("KEY")
    if not key:
        return False
    async with connect(url, keys=current.sealing_keys) as database:
        return await keys.store_first_key(database.engine, _ACTOR, key)


@click.command()
@as_json
def retention(as_json: bool) -> None:
    """Delete what is older than the PRECIS_KEEP_* settings.

    Workers do the same once an hour.
    """
    from service.usecases.retain import remove_old

    async def work() -> RemovedRows:
        current = shell.settings()
        async with shell.database(current) as database:
            return await remove_old(database.engine, current)

    removed = asdict(shell.run(work()))
    if as_json:
        print_json(removed)
    else:
        print_object(removed)


@click.command()
@click.option(
    "--most",
    type=click.IntRange(0, 100),
    default=MOST_MISSING,
    show_default=True,
    help="Percent of the chats that may go, at most.",
)
@click.option("--tenant", default=FIRST_TENANT, help="Tenant: one Open WebUI.")
@click.option("--dry-run", is_flag=True, help="Ask, and delete nothing.")
@as_json
def reconcile(most: int, tenant: str, dry_run: bool, as_json: bool) -> None:
    """Delete the chats that PRECIS_OPENWEBUI_URL does not have any more.

    A worker does the same once a night.
    """
    from service.clients.openwebui import sign_in
    from service.storage import keys
    from service.storage.keys import Operator
    from service.usecases import reconcile as reconciling

    current = shell.settings()
    url, key = current.openwebui_url, current.openwebui_key.get_secret_value()
    if not (url and key):
        raise ConfigurationError(
            "set PRECIS_OPENWEBUI_URL to Open WebUI, and PRECIS_OPENWEBUI_KEY to an admin's API key"
        )

    async def work() -> Reconciliation:
        async with shell.database(current) as database:
            async with database.engine.connect() as connection:
                identity = await keys.find_tenant(connection, tenant)
            if identity is None:
                raise _refuse_tenant(tenant)
            by = Operator(identity, _ACTOR)
            async with sign_in(url, key) as webui:
                return await reconciling.reconcile(
                    database.engine, webui, by, most=most, dry=dry_run
                )

    found = shell.run(work())
    if as_json:
        print_json(asdict(found))
        return
    for chat in found.missing:
        say(chat)
    what = "would be deleted" if dry_run else "were deleted"
    say(f"{len(found.missing)} of {found.asked} chats {what}.")


@click.group()
def tenants() -> None:
    """Erase a tenant."""


@tenants.command()
@click.argument("name")
@click.confirmation_option(prompt="Delete everything of this tenant?")
def erase(name: str) -> None:
    """Delete the tenant NAME: its keys, chats, audit and secrets.

    What is sealed for it in a backup without these can never be opened again.
    """
    from service.storage import keys

    async def work() -> None:
        async with (
            shell.database(shell.settings()) as database,
            database.engine.begin() as connection,
        ):
            if not await keys.erase_tenant(connection, name):
                raise _refuse_tenant(name)

    shell.run(work())
    say(f"Tenant {name!r} is erased.")


def _refuse_tenant(name: str) -> NotFound:
    return NotFound(f"no tenant has the name {name!r}")
