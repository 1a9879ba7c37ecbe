"""`precis backup` and `precis restore`: the whole database in one file."""

from __future__ import annotations

from pathlib import Path

import click

from service.cli import shell
from service.cli.output import say
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

    The service may run. Sealed texts stay sealed.
    """
    from service.embedded import dumps
    from service.runtime import check_reachable
    from service.storage.tables import tenant_secrets

    files = [one for one in (file, secrets) if one]
    for one in files:
        if one.exists():
            raise ConfigurationError(f"the file {one} exists already: name another one")

    async def work() -> None:
        async with check_reachable(shell.settings()) as urls:
            await dumps.dump(urls.database, file, without=tenant_secrets if secrets else None)
            if secrets:
                await dumps.dump(urls.database, secrets, only=tenant_secrets)

    try:
        shell.run(work())
    except BaseException:
        # A dump without its secrets restores nothing.
        file.unlink(missing_ok=True)
        raise
    for one in files:
        say(f"{one}: {one.stat().st_size:,} bytes.")


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--secrets", type=_FILE, help="The tenants' secrets, if written apart.")
@click.confirmation_option(prompt="Replace everything that Precis stores by this backup?")
def restore(file: Path, secrets: Path | None) -> None:
    """Replace the whole database by the backup FILE, and migrate it to this version.

    All of it or nothing. Where there is no database yet, one is made.
    """
    from service.embedded import dumps
    from service.storage.database import connect, migrate

    async def work() -> list[str]:
        async with shell.migrate_and_connect(shell.settings()) as urls:
            await dumps.load(urls.database, *(one for one in (file, secrets) if one))
            await migrate(urls.database)
            async with connect(urls.database) as database:
                return await database.keyring.tenants_without_secrets()

    nameless = shell.run(work())
    say("Restored. API keys are those of the backup.")
    for name in nameless:
        say(
            f"The texts of tenant {name!r} cannot be read, because its secrets are missing."
            f" `precis tenants erase {name}` deletes the rest of it."
        )
