"""`precis keys`: API keys, and the keys that stored texts are sealed with.

API keys are the service's; the first one of a tenant, and what is sealed, are the database's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from service.cli import shell
from service.cli.client import ask
from service.cli.output import as_json, print_page, print_table, say
from service.names import FIRST_TENANT

if TYPE_CHECKING:
    from service.storage.maintenance import KeyUsage

_KEYS: Final = "id prefix scope name last_used_at last_filter expires_at revoked_at created_at"
_ID = click.argument("identity", metavar="ID", type=int)


@click.group()
def keys() -> None:
    """Create, list and revoke API keys; make and rotate encryption keys.

    An API key is shown once and stored as a hash. Encryption keys: docs/howto/encryption.md.
    """


@keys.command()
@click.option(
    "--scope",
    help="`filter`: for the filter in Open WebUI; `events`: for the events function;"
    " `operator:read`: to look; `operator`: for all of REST and the pages.",
)
@click.option("--name", default="", help="A name that `precis keys list` shows.")
@click.option("--expires", metavar="DAYS", type=int, help="Days until it expires; else never.")
@click.option(
    "--first",
    is_flag=True,
    help="Make an operator key in the database itself, where no key is there to ask with: the"
    " first of a fleet or of a new tenant, or when the last one is lost.",
)
@click.option("--tenant", help="With --first: the tenant (one Open WebUI), made if it is new.")
def create(
    scope: str | None,
    name: str,
    expires: int | None,
    first: bool,
    tenant: str | None,
) -> None:
    """Make a key, and print it."""
    if first:
        if scope not in (None, "operator"):
            raise click.UsageError("--first makes an operator key. That key can make others.")
        click.echo(_first(tenant or FIRST_TENANT, name or "first key", expires))
        return
    if tenant is not None:
        raise click.UsageError("--tenant needs --first. Other keys get the tenant of your own.")
    if scope is None:
        raise click.UsageError("Pass --scope or --first.")
    body = {"scope": scope, "name": name, "expires_days": expires}
    click.echo(ask("POST", "keys", body=body)["key"])


def _first(tenant: str, name: str, expires: int | None) -> str:
    """A new operator key of a tenant, made in the database."""
    from service.usecases import keys as use_case

    async def work() -> str:
        async with shell.database(shell.settings()) as database:
            key = await use_case.create_key(
                database.engine, tenant, "precis keys", "operator", name, expires
            )
            return key.key

    return shell.run(work())


@keys.command("list")
@as_json
def list_keys(as_json: bool) -> None:
    """List all keys of the tenant, without the keys themselves."""
    print_page(ask("GET", "keys"), "keys", _KEYS, as_json)


@keys.command()
@_ID
def revoke(identity: int) -> None:
    """Revoke the key ID of `precis keys list`; it is refused within ten seconds."""
    ask("DELETE", "keys", identity)
    say(f"Key {identity} is revoked.")


@keys.command("new-encryption-key")
def new_encryption_key() -> None:
    """Print a new key for PRECIS_ENCRYPTION_KEYS. It is stored nowhere: keep it, and a copy."""
    import base64
    import secrets

    ids = [key.id for key in shell.settings().sealing_keys.keys]
    secret = base64.b64encode(secrets.token_bytes(32)).decode()
    click.echo(f"{max(ids, default=0) + 1}:{secret}")


@keys.command("rotate-encryption")
def rotate_encryption() -> None:
    """Seal all that is stored with the first of PRECIS_ENCRYPTION_KEYS, while the service runs.

    Also what was stored before there was a key. With `none` as the first, it is stored plain again.
    May be stopped at any time: the next call does what is left. Works on the database itself, and
    counts at the end what each key seals.
    """
    from service.usecases import rotate as rotation

    def show(done: int) -> None:
        say(f"{done:,} chats done", err=True)

    async def work() -> list[KeyUsage]:
        async with shell.database(shell.settings()) as database:
            return await rotation.rotate_keys(database, show)

    rows = [
        {"sealed_with": f"key {one.key}" if one.key else "nothing", "values": one.values}
        for one in shell.run(work())
    ]
    print_table(rows, "sealed_with values")
