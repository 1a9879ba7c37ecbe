"""`precis backup` and `precis restore`: the whole database in one file.

By PostgreSQL's own programs, which come with the embedded server.
"""

import asyncio
import os
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
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
from service.storage.tables import metadata, tenant_secrets
from service.urls import Urls, announced

_TABLES = [*(table.name for table in metadata.sorted_tables), "alembic_version"]
_WITHOUT_SECRETS = f"--exclude-table-data=public.{tenant_secrets.name}"
# Not `pg_restore --clean`, which leaves the tables that are newer than the dump.
_EMPTY = f"drop table if exists {', '.join(_TABLES)} cascade"


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it; must not be there yet.")],
    secrets: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the tenants' salts instead: see docs/howto/encryption.md"
        ),
    ] = None,
) -> None:
    """Writes the whole database to a file that this user alone can read. The service may run.

    What is sealed stays sealed in it.
    """
    files = [one for one in (file, secrets) if one]
    for one in files:
        if one.exists():
            shell.fail(ConfigurationError(f"{one} is there already; name another file"))

    async def work() -> None:
        async with reachable(shell.settings()) as urls:
            await _dump(urls.database, file, *([_WITHOUT_SECRETS] if secrets else []))
            if secrets:
                await _dump(urls.database, secrets, "--data-only", tables=[tenant_secrets.name])

    for one in files:
        os.close(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        shell.run(work())
    except BaseException:
        for one in files:
            one.unlink(missing_ok=True)
        raise
    for one in files:
        size = f"{one.stat().st_size:,}"
        shell.console.print(f"{one}: {size} bytes.", highlight=False, soft_wrap=True)


def restore(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="From a backup.")],
    secrets: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The salts, if they were written apart."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Replaces the whole database by a backup, and migrates it to this version.

    All of it or nothing. Where there is no database yet, one is made.
    """
    if not yes:
        typer.confirm(f"Replace everything that Precis stores by {file}?", abort=True)

    async def work() -> None:
        async with _target(shell.settings()) as urls:
            await _load(urls.database, [one for one in (file, secrets) if one])
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


async def _dump(url: str, file: Path, *more: str, tables: Sequence[str] = _TABLES) -> None:
    options = ("--format=custom", "--no-owner", "--no-privileges", f"--file={file}", *more)
    await _run("pg_dump", url, *options, *(f"--table=public.{name}" for name in tables))


async def _load(url: str, files: Sequence[Path]) -> None:
    # Beside the file, where there is room for what it holds; whole scripts first, because of a
    # pipe that breaks the first half would be committed.
    beside = os.path.dirname(files[0]) or "."
    with tempfile.TemporaryDirectory(dir=beside, prefix=".precis-") as folder:
        scripts = [f"{folder}/{place}.sql" for place in range(len(files))]
        for script, file in zip(scripts, files, strict=True):
            await _run("pg_restore", None, "--no-owner", f"--file={script}", str(file))
        once = ("--single-transaction", "--set=ON_ERROR_STOP=1", "--quiet", "--no-psqlrc")
        commands = (f"--command={_EMPTY}", *(f"--file={script}" for script in scripts))
        await _run("psql", url, *once, *commands)


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
