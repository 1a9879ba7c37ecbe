"""`precis backup` and `precis restore`: the whole database in one file."""

from __future__ import annotations

from pathlib import Path

import click

from service.cli import shell
from service.cli.output import confirm, say, without_asking
from service.errors import ConfigurationError


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--secrets",
    type=click.Path(path_type=Path),
    help="Where to write the tenants' secrets instead: see docs/howto/encryption.md",
)
def backup(file: Path, secrets: Path | None) -> None:
    """Write the whole database to a new FILE that this user alone can read.

    The service may run. What is sealed stays sealed in it.
    """
    from service.embedded import dumps
    from service.runtime import reachable
    from service.storage.tables import tenant_secrets

    files = [one for one in (file, secrets) if one]
    for one in files:
        if one.exists():
            raise ConfigurationError(f"{one} is there already; name another file")

    async def work() -> None:
        async with reachable(shell.settings()) as urls:
            await dumps.dump(urls.database, file, without=tenant_secrets if secrets else None)
            if secrets:
                await dumps.dump(urls.database, secrets, only=tenant_secrets)

    try:
        shell.run(work())
    except BaseException:
        # One without the other brings nothing back.
        file.unlink(missing_ok=True)
        raise
    for one in files:
        say(f"{one}: {one.stat().st_size:,} bytes.")


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--secrets", type=_FILE, help="The tenants' secrets, if written apart.")
@without_asking
def restore(file: Path, secrets: Path | None, yes: bool) -> None:
    """Replace the whole database by the backup FILE, and migrate it to this version.

    All of it or nothing. Where there is no database yet, one is made.
    """
    from service.embedded import dumps
    from service.storage.database import connect, migrate

    confirm(f"Replace everything that Precis stores by {file}?", yes)

    async def work() -> list[str]:
        async with shell.migrated(shell.settings()) as urls:
            await dumps.load(urls.database, *(one for one in (file, secrets) if one))
            await migrate(urls.database)
            async with connect(urls.database) as database:
                return await database.keyring.tenants_without_secrets()

    nameless = shell.run(work())
    say("Restored. API keys are those of the backup.")
    for name in nameless:
        say(
            f"Nobody can read what is stored for tenant {name!r}: its secrets are not there."
            f" `precis tenants erase {name}` removes what is left of it."
        )
