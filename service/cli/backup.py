"""`precis backup` and `precis restore`: the whole database in one file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from service import dumps
from service.cli import shell
from service.errors import ConfigurationError
from service.runtime import reachable, servers
from service.settings import Settings
from service.storage.database import migrate
from service.urls import Urls, announced


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it; must not be there yet.")],
) -> None:
    """Writes the whole database to a file that this user alone can read. The service may run."""
    if file.exists():
        shell.fail(ConfigurationError(f"{file} is there already; name another file"))

    async def work() -> None:
        async with reachable(shell.settings()) as urls:
            await dumps.dump(urls.database, file)

    shell.run(work())
    shell.console.print(f"{file}: {file.stat().st_size:,} bytes.", highlight=False, soft_wrap=True)


def restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="From a backup.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Replaces the whole database by a backup, and migrates it to this version.

    All of it or nothing. Where there is no database yet, one is made.
    """
    if not yes:
        typer.confirm(f"Replace everything that Precis stores by {file}?", abort=True)

    async def work() -> None:
        async with _target(shell.settings()) as urls:
            await dumps.load(urls.database, file)
            await migrate(urls.database)

    shell.run(work())
    shell.console.print("Restored. API keys are those of the backup.")


@asynccontextmanager
async def _target(current: Settings) -> AsyncIterator[Urls]:
    if running := announced(current):
        yield running
        return
    async with servers(current) as urls:
        yield urls
