"""`precis keys`: API keys of tenants."""

from __future__ import annotations

import base64
import secrets
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import shell
from service.cli.chats import CLI
from service.cli.output import print_json, print_rows
from service.names import FIRST_TENANT, MOST_DAYS, MOST_HOURS, Scope

if TYPE_CHECKING:
    from service.storage.keys import Key
    from service.storage.rotation import Held
    from service.usecases.rotate import Progress

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="API keys: shown once, stored as hashes. Encryption keys: docs/howto/encryption.md.",
)
_EVERY = 2.0  # seconds between two lines of progress


@app.command()
def create(
    scope: Annotated[
        Scope,
        typer.Option(
            help="`filter`: for the filter in Open WebUI; `events`: for the events function;"
            " `operator:read`: to look; `operator`: for all of REST and the pages."
        ),
    ],
    name: Annotated[
        str, typer.Option(callback=shell.name, help="A name that `precis keys list` shows.")
    ] = "",
    tenant: Annotated[
        str,
        typer.Option(callback=shell.name, help="Tenant (one Open WebUI); created if it is new."),
    ] = FIRST_TENANT,
    expires: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS", min=1, max=MOST_DAYS, help="Days until it expires; by default never."
        ),
    ] = None,
    networks: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="CIDR",
            help="From where it may be used, such as 10.0.0.0/8; may be repeated. By default from"
            " anywhere.",
        ),
    ] = None,
) -> None:
    """Makes a key and prints it."""
    from service.usecases import keys

    wanted = keys.Wanted(scope, name, expires, networks or ())

    async def work() -> str:
        async with shell.database(shell.settings()) as database:
            made = await keys.create(database.engine, tenant, CLI, wanted)
            return made.key

    typer.echo(shell.run(work()))


@app.command("list")
def list_keys(as_json: shell.Json = False) -> None:
    """Lists all keys, without the keys themselves."""
    from service.storage import keys

    async def work() -> list[Key]:
        async with (
            shell.database(shell.settings()) as database,
            database.engine.connect() as connection,
        ):
            return await keys.everyone(connection)

    found = shell.run(work())
    if as_json:
        print_json(found)
        return
    columns = (
        "id",
        "key",
        "scope",
        "tenant",
        "name",
        "created",
        "expires",
        "revoked",
        "used",
        "filter",
        "from",
    )
    least = ("from", "created", "tenant", "revoked", "expires")
    print_rows(shell.console, columns, [_shown(key) for key in found], least=least)


def _shown(key: Key) -> tuple[str, ...]:
    return (
        str(key.id),
        f"{key.prefix}…",
        key.scope,
        key.tenant_name,
        key.name,
        _time(key.created_at),
        _time(key.expires_at),
        _time(key.revoked_at),
        _time(key.last_used_at),
        key.last_filter or "",
        ", ".join(key.networks),
    )


def _time(value: datetime | None) -> str:
    return f"{value:%Y-%m-%d %H:%M}" if value else ""


@app.command()
def revoke(
    identity: Annotated[
        int, typer.Argument(metavar="ID", min=1, max=shell.LAST_ID, help="From `precis keys list`.")
    ],
) -> None:
    """Revokes a key; running services reject it within ten seconds."""
    from service.usecases import keys

    async def work() -> None:
        async with shell.database(shell.settings()) as database:
            await keys.revoke_any(database.engine, CLI, identity)

    shell.run(work())
    shell.console.print(f"Key {identity} is revoked.")


@app.command()
def rotate(
    identity: Annotated[
        int, typer.Argument(metavar="ID", min=1, max=shell.LAST_ID, help="From `precis keys list`.")
    ],
    grace: Annotated[
        float,
        typer.Option(
            metavar="HOURS", min=0, max=MOST_HOURS, help="Hours that the old key goes on working."
        ),
    ] = 24,
) -> None:
    """Makes a key like this one and prints it; the old one ends after the hours of grace."""
    from service.usecases import keys

    async def work() -> str:
        async with shell.database(shell.settings()) as database:
            made = await keys.rotate_any(database.engine, CLI, identity, grace)
            return made.key

    typer.echo(shell.run(work()))


@app.command("new-encryption-key")
def new_encryption_key() -> None:
    """Prints a new key for PRECIS_ENCRYPTION_KEYS. It is stored nowhere: keep it, and a copy."""
    taken = [key.id for key in shell.settings().sealing_keys.keys]
    secret = base64.b64encode(secrets.token_bytes(32)).decode()
    typer.echo(f"{max(taken, default=0) + 1}:{secret}")


@app.command("rotate-encryption")
def rotate_encryption() -> None:
    """Seals all that is stored with the first of PRECIS_ENCRYPTION_KEYS, while the service runs.

    Also what was stored before there was a key. With `none` as the first, it is stored plain again.
    May be stopped at any time: the next call does what is left.
    """
    from service.usecases import rotate as rotation

    shown_at = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= _EVERY:
            shown_at = time.monotonic()
            shell.errors.print(
                f"{progress.chats:,} chats done, {progress.rows:,} rows changed", highlight=False
            )

    async def work() -> list[Held]:
        async with shell.database(shell.settings()) as database:
            return await rotation.rotate(database, show)

    _print_held(shell.run(work()))


@app.command("encryption")
def encryption(as_json: shell.Json = False) -> None:
    """Counts the stored values that each encryption key seals. Reads all of them."""
    from service.usecases import rotate as rotation

    async def work() -> list[Held]:
        async with shell.database(shell.settings()) as database:
            return await rotation.held(database)

    found = shell.run(work())
    if as_json:
        print_json(found)
    else:
        _print_held(found)


def _print_held(found: list[Held]) -> None:
    rows = [("plain" if one.key is None else f"key {one.key}", f"{one.values:,}") for one in found]
    print_rows(shell.console, ("sealed with", "values"), rows)
