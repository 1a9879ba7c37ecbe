"""`precis backup` and `precis restore`: the whole database in one file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import shell
from service.errors import ConfigurationError

if TYPE_CHECKING:
    from service.settings import Settings
    from service.urls import Urls


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it; must not be there yet.")],
    secrets: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the tenants' secrets instead: see docs/howto/encryption.md"
        ),
    ] = None,
) -> None:
    """Writes the whole database to a file that this user alone can read. The service may run.

    What is sealed stays sealed in it.
    """
    from service import dumps
    from service.runtime import reachable
    from service.storage.tables import tenant_secrets

    files = [one for one in (file, secrets) if one]
    for one in files:
        if one.exists():
            shell.fail(ConfigurationError(f"{one} is there already; name another file"))

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
        size = f"{one.stat().st_size:,}"
        shell.console.print(f"{one}: {size} bytes.", highlight=False, soft_wrap=True)


def restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="From a backup.")],
    secrets: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The tenants' secrets, if written apart."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Replaces the whole database by a backup, and migrates it to this version.

    All of it or nothing. Where there is no database yet, one is made.
    """
    from service import dumps
    from service.storage.database import connect, migrate

    if not yes:
        typer.confirm(f"Replace everything that Precis stores by {file}?", abort=True)

    async def work() -> list[str]:
        async with _target(shell.settings()) as urls:
            await dumps.load(urls.database, *(one for one in (file, secrets) if one))
            await migrate(urls.database)
            async with connect(urls.database) as database:
                return await database.seals.without_secrets()

    lost = shell.run(work())
    shell.console.print("Restored. API keys are those of the backup.")
    for name in lost:
        shell.console.print(
            f"Nobody can read what is stored for tenant {name!r}: its secrets are not there."
            f" `precis tenants erase {name}` removes what is left of it.",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


@asynccontextmanager
async def _target(current: Settings) -> AsyncIterator[Urls]:
    from service.runtime import servers
    from service.urls import announced

    if running := announced(current):
        yield running
        return
    async with servers(current) as urls:
        yield urls
