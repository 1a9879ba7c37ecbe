"""The whole database in one file and back, by PostgreSQL's own programs; and before a migration.

The programs come with the embedded server; for TLS, which those do not speak, they are the
operator's.
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

from service.embedded.postgres import binary
from service.errors import ConfigurationError
from service.settings import Settings
from service.storage.database import demands_tls, newest, pending
from service.storage.tables import metadata

FOLDER = "backups"  # in the data folder
_KEPT = 3  # dumps before migrations
_HEAD = 2000  # bytes in which a script sets what it needs

_TABLES = [*(table.name for table in metadata.sorted_tables), "alembic_version"]
# Not `pg_restore --clean`, which leaves the tables that are newer than the dump.
_EMPTY = f"drop table if exists {', '.join(_TABLES)} cascade"

log = structlog.get_logger(__name__)


async def dump(
    url: str, file: Path, *, without: Table | None = None, only: Table | None = None
) -> None:
    """Writes the database to a new file that this user alone can read; no file when it fails.

    `file` is not there yet. The rows of a table `without` are left out; of a table `only` its rows
    alone are written, without the schema.

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
        await _run(_programs(url) / "pg_dump", url, *options)
    except BaseException:
        await asyncio.to_thread(file.unlink, missing_ok=True)
        raise


async def load(url: str, *files: Path) -> None:
    """Replaces the database by a dump, and what was written apart from it: all of it, or nothing.

    Raises:
        ConfigurationError: a program failed.
    """
    programs = _programs(url)
    # Beside the file, where there is room for what it holds; whole scripts first, because of a
    # pipe that breaks the first half would be committed.
    beside = os.path.dirname(files[0]) or "."
    with tempfile.TemporaryDirectory(dir=beside, prefix=".precis-") as folder:
        scripts = [f"{folder}/{place}.sql" for place in range(len(files))]
        for script, file in zip(scripts, files, strict=True):
            await _run(programs / "pg_restore", None, "--no-owner", f"--file={script}", str(file))
            await asyncio.to_thread(_for_older_servers, script)
        once = ("--single-transaction", "--set=ON_ERROR_STOP=1", "--quiet", "--no-psqlrc")
        commands = (f"--command={_EMPTY}", *(f"--file={script}" for script in scripts))
        await _run(programs / "psql", url, *once, *commands)


def _for_older_servers(script: str) -> None:
    """Takes out of a script's head the setting that PostgreSQL before 17 does not know."""
    # pg_restore 17 and later write it whatever the server. By as many bytes, in place: what
    # follows may be gigabytes.
    with open(script, "r+b") as file:
        head = file.read(_HEAD)
        file.seek(0)
        file.write(head.replace(b"\nSET transaction_timeout", b"\n--- transaction_timeout", 1))


async def before_migration(url: str, settings: Settings) -> None:
    """Dumps an embedded database that is about to be migrated, and keeps the last three dumps.

    Of a database by URL none is made, because it is backed up where it runs: the log says so.
    Nothing is done when the database is new, or at this version's migration.

    Raises:
        ConfigurationError: no dump can be made.
    """
    current = await pending(url)
    if current is None:
        return
    change = {"current": current, "head": newest()}
    if settings.database_url:
        log.warning("migration.without_dump", **change)
        return
    folder = settings.data_dir / FOLDER
    at = datetime.now(UTC)
    file = folder / f"{at:%Y%m%dT%H%M%SZ}-{current}-before-{newest()}.dump"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        await dump(url, file)
    except (ConfigurationError, OSError) as error:
        raise ConfigurationError(
            f"the database was not migrated from {current} to {newest()}, because no dump"
            f" of it could be made before: {error}. Make room in {folder}"
        ) from error
    log.info("migration.dumped", file=str(file), size=file.stat().st_size, **change)
    for old in sorted(folder.glob("*-before-*.dump"))[:-_KEPT]:
        old.unlink()


def _programs(url: str) -> Path:
    """The folder of PostgreSQL's programs: of the package, or of this machine where TLS is asked.

    Raises:
        ConfigurationError: there has to be TLS, and this machine has no `pg_dump`.
    """
    if not demands_tls(url):
        return binary().parent
    own = shutil.which("pg_dump")
    if own is None:
        raise ConfigurationError(
            "PRECIS_DATABASE_URL asks for TLS, which the pg_dump of this package does not speak:"
            " install PostgreSQL's client programs, not older than the server, so that pg_dump,"
            " pg_restore and psql are in PATH"
        )
    return Path(own).parent


async def _run(program: Path, url: str | None, *arguments: str) -> None:
    """Runs a program of PostgreSQL; the password is in its environment, where only we see it."""
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
        why = " ".join(errors.decode(errors="replace").split())[:1000]
        raise ConfigurationError(f"{program.name} failed: {why}")
