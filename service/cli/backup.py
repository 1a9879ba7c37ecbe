"""`precis backup` and `precis restore`: the whole database in one file.

By PostgreSQL's own programs, which come with the embedded server.
"""

import asyncio
import os
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import URL, make_url

from service.cli import shell
from service.embedded.postgres import binary
from service.errors import ConfigurationError
from service.runtime import reachable, servers
from service.settings import Settings
from service.storage.database import migrate
from service.storage.tables import metadata
from service.urls import Urls, announced

_TABLES = [*(table.name for table in metadata.sorted_tables), "alembic_version"]
# Not `pg_restore --clean`, which leaves the tables that are newer than the dump.
_EMPTY = f"drop table if exists {', '.join(_TABLES)} cascade"


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it; must not be there yet.")],
) -> None:
    """Writes the whole database to a file that this user alone can read. The service may run."""
    if file.exists():
        shell.fail(ConfigurationError(f"{file} is there already; name another file"))

    async def work() -> None:
        async with reachable(shell.settings()) as urls:
            await _dump(urls.database, file)

    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        shell.run(work())
    except BaseException:
        file.unlink(missing_ok=True)
        raise
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
            await _load(urls.database, file)
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


async def _dump(url: str, file: Path) -> None:
    options = ("--format=custom", "--no-owner", "--no-privileges", f"--file={file}")
    await _run("pg_dump", url, *options, *(f"--table=public.{name}" for name in _TABLES))


async def _load(url: str, file: Path) -> None:
    # Beside the file, where there is room for what it holds; a whole script first, because of a
    # pipe that breaks the first half would be committed.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(file) or ".", prefix=".precis-") as folder:
        script = f"{folder}/restore.sql"
        await _run("pg_restore", None, "--no-owner", f"--file={script}", str(file))
        once = ("--single-transaction", "--set=ON_ERROR_STOP=1", "--quiet", "--no-psqlrc")
        await _run("psql", url, *once, f"--command={_EMPTY}", f"--file={script}")


async def _run(program: str, url: str | None, *arguments: str) -> None:
    """Runs a program of PostgreSQL; the password is in its environment, where only we see it."""
    environment = dict(os.environ)
    if url:
        where = make_url(url).set(drivername="postgresql")
        environment["PGPASSWORD"] = where.password or ""
        plain = URL.create(
            "postgresql",
            where.username,
            host=where.host,
            port=where.port,
            database=where.database,
            # libpq calls `sslmode` what asyncpg calls `ssl`.
            query={"sslmode" if name == "ssl" else name: at for name, at in where.query.items()},
        )
        arguments = (f"--dbname={plain.render_as_string()}", *arguments)
    process = await asyncio.create_subprocess_exec(
        binary().with_name(program), *arguments, env=environment, stdout=DEVNULL, stderr=PIPE
    )
    _, said = await process.communicate()
    if process.returncode:
        why = " ".join(said.decode(errors="replace").split())[:1000]
        raise ConfigurationError(f"{program} failed: {why}")
