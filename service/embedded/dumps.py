"""Dumps of the whole database, by PostgreSQL's own programs: for backups and before migrations.

The programs come with the embedded server. They have no TLS: for a URL that demands it, those of
the operator's machine run.
"""

import asyncio
import os
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import structlog
from sqlalchemy import Table

from service.embedded.postgres import find_binary
from service.errors import ConfigurationError
from service.settings import Settings
from service.storage.database import find_newest_revision, is_tls_demanded, list_pending
from service.storage.tables import metadata

FOLDER = "backups"  # in the data folder
_KEPT = 3  # dumps before migrations
_HEAD = 2000  # bytes at the beginning of a script that have its SET statements

_TABLES = [*(table.name for table in metadata.sorted_tables), "alembic_version"]
# `pg_restore --clean` would leave the tables that are newer than the dump.
_DROP_TABLES = f"drop table if exists {', '.join(_TABLES)} cascade"

log = structlog.get_logger(__name__)


async def dump(
    url: str, file: Path, *, without: Table | None = None, only: Table | None = None
) -> None:
    """Writes the database to a new file that only this user can read.

    Args:
        url: the database's.
        file: must not exist yet, and does not exist after an error.
        without: a table whose rows are left out.
        only: a table whose rows alone are written, without the schema.

    Raises:
        ConfigurationError: the file cannot be written, or the program failed.
    """
    options = ["--format=custom", "--no-owner", "--no-privileges", f"--file={file}"]
    if without is not None:
        options.append(f"--exclude-table-data=public.{without.name}")
    if only is not None:
        options.append("--data-only")
    tables = _TABLES if only is None else [only.name]
    options += [f"--table=public.{name}" for name in tables]
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error
    try:
        await _run(_find_programs(url) / "pg_dump", url, *options)
    except BaseException:
        await asyncio.to_thread(file.unlink, missing_ok=True)
        raise


async def load(url: str, *files: Path) -> None:
    """Replaces the database by a dump, and by the rows of further files, in one transaction.

    Raises:
        ConfigurationError: a program failed; the database is as it was.
    """
    programs = _find_programs(url)
    # Complete scripts first: of a pipe that breaks, psql would commit the first half. They stand
    # in the folder of the dump, whose disk is large enough for one.
    with tempfile.TemporaryDirectory(dir=files[0].parent, prefix=".precis-") as folder:
        scripts = [f"{folder}/{place}.sql" for place in range(len(files))]
        for script, file in zip(scripts, files, strict=True):
            await _run(programs / "pg_restore", None, "--no-owner", f"--file={script}", str(file))
            await asyncio.to_thread(_drop_new_statements, script)
        once = ("--single-transaction", "--set=ON_ERROR_STOP=1", "--quiet", "--no-psqlrc")
        commands = (f"--command={_DROP_TABLES}", *(f"--file={script}" for script in scripts))
        await _run(programs / "psql", url, *once, *commands)


def _drop_new_statements(script: str) -> None:
    """Makes a comment of the setting in a script that PostgreSQL before 17 does not know."""
    # pg_restore 17 and later always write it. The comment is as long, and replaces it in place,
    # because the rest of the script may be gigabytes.
    with open(script, "r+b") as file:
        head = file.read(_HEAD)
        file.seek(0)
        file.write(head.replace(b"\nSET transaction_timeout", b"\n--- transaction_timeout", 1))


async def dump_before_migration(url: str, settings: Settings) -> None:
    """Dumps an embedded database that is about to be migrated, and keeps the last three dumps.

    A database that is new or needs no migration is not dumped. Nor is a database of a URL, because
    its operator backs it up: the log says so.

    Raises:
        ConfigurationError: no dump can be made.
    """
    current = await list_pending(url)
    if current is None:
        return
    newest = find_newest_revision()
    change = {"current": current, "head": newest}
    if settings.database_url:
        log.warning("migration.without_dump", **change)
        return
    folder = settings.data_dir / FOLDER
    at = datetime.now(UTC)
    file = folder / f"{at:%Y%m%dT%H%M%SZ}-{current}-before-{newest}.dump"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        await dump(url, file)
    except (ConfigurationError, OSError) as error:
        raise ConfigurationError(
            f"the database was not migrated from {current} to {newest}, because it could not be"
            f" dumped first: {error}. Make room in {folder}"
        ) from error
    log.info("migration.dumped", file=str(file), size=file.stat().st_size, **change)
    for old in sorted(folder.glob("*-before-*.dump"))[:-_KEPT]:
        old.unlink()


def _find_programs(url: str) -> Path:
    """The folder of PostgreSQL's programs: the package's, or this machine's if the URL demands TLS.

    Raises:
        ConfigurationError: the URL demands TLS, and this machine has no `pg_dump`.
    """
    if not is_tls_demanded(url):
        return find_binary().parent
    own = shutil.which("pg_dump")
    if own is None:
        raise ConfigurationError(
            "PRECIS_DATABASE_URL demands TLS, which the pg_dump of this package does not have:"
            " install PostgreSQL's client programs, not older than the server, so that pg_dump,"
            " pg_restore and psql are in PATH"
        )
    return Path(own).parent


async def _run(program: Path, url: str | None, *arguments: str) -> None:
    """Runs a program of PostgreSQL; the password is in its environment, which is private."""
    environment = dict(os.environ)
    if url:
        password = urlsplit(url).password
        environment["PGPASSWORD"] = unquote(password or "")
        nameless = url.replace(f":{password}@", "@", 1)
        arguments = (f"--dbname={nameless}", *arguments)
    process = await asyncio.create_subprocess_exec(
        program, *arguments, env=environment, stdout=DEVNULL, stderr=PIPE
    )
    _, errors = await process.communicate()
    if process.returncode:
        message = " ".join(errors.decode(errors="replace").split())[:1000]
        raise ConfigurationError(f"{program.name} failed: {message}")
