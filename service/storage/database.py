"""Connections to PostgreSQL.

The SQLAlchemy engine is for everything. Two small asyncpg pools are for reads in one statement: one
for those that every request of a chat waits for, and one for all others.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from service.encryption import EncryptionKeys
from service.errors import ConfigurationError, SchemaError, SchemaNewer
from service.storage import sealing
from service.storage.sealing import Seals

MIGRATIONS = Path(__file__).parents[2] / "migrations"
_NO_KEYS = EncryptionKeys()
_CONNECTIONS = 15  # of the engine
OLDEST = 14  # major of PostgreSQL; `scripts/test-postgres` tests from it on
_NEVER_PLAIN: Final = ("require", "verify-ca", "verify-full")  # values of `sslmode`


Reads: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
"""The connections of the quick reads."""


@dataclass(frozen=True, slots=True)
class Database:
    """The ways to the same PostgreSQL.

    `hot` is for what every request of a chat waits for: its context, and keys.
    """

    engine: AsyncEngine
    reads: Reads
    hot: Reads
    seals: Seals


@asynccontextmanager
async def connect(
    url: str, *, name: str = "precis", keys: EncryptionKeys = _NO_KEYS
) -> AsyncIterator[Database]:
    """Opens all pools; `name` is shown in `pg_stat_activity`.

    Texts are sealed with `keys`; `Seals.check` says whether these are the right ones. Without any,
    texts are stored as they are.
    """
    async with _reading(url, f"{name}-reads") as reads, _reading(url, f"{name}-hot") as hot:
        seals = Seals(keys, reads)
        engine = engine_for(
            url,
            name,
            pool_size=_CONNECTIONS,
            max_overflow=0,  # what goes over a pool's size is opened and closed for each use
            hide_parameters=True,  # they hold what people wrote, and errors are logged
            execution_options={sealing.OPTION: seals},
        )
        event.listen(engine.sync_engine, "checkout", _check_open)
        try:
            yield Database(engine, reads, hot, seals)
        finally:
            await engine.dispose()


@asynccontextmanager
async def _reading(url: str, name: str) -> AsyncIterator[Reads]:
    with _first_contact(url):
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=4,
            init=_made_ready,
            reset=_nothing_to_reset,
            server_settings={"application_name": name},
        )
    async with pool:
        yield pool


def engine_for(url: str, name: str, **options: Any) -> AsyncEngine:  # noqa: ANN401 - SQLAlchemy's
    """An engine whose connections asyncpg opens by the URL, as it does those of the read pool.

    SQLAlchemy's own reading of a URL knows no `sslmode`.
    """

    async def opened() -> "asyncpg.Connection[asyncpg.Record]":
        session = {"application_name": name, "timezone": "UTC"}
        return await asyncpg.connect(url, server_settings=session)

    return create_async_engine("postgresql+asyncpg://", async_creator=opened, **options)


def demands_tls(url: str) -> bool:
    """Whether there is TLS with this PostgreSQL or no connection."""
    words = parse_qs(urlsplit(url).query)
    return words.get("sslmode", [""])[-1] in _NEVER_PLAIN


async def migrate(url: str) -> None:
    """Brings the schema to the newest migration of this version.

    Safe to call from several processes at once: a lock lets one go first.

    Raises:
        ConfigurationError: the database cannot be reached, or is too old.
        SchemaError: a newer version of Precis has been here, or one from before the first release.
    """
    # Tried before Alembic, whose errors name no setting.
    with _first_contact(url):
        connection = await asyncpg.connect(url)
    try:
        await _check_version(connection)
        _refuse_unreleased(await _revision(connection))
    finally:
        await connection.close()
    try:
        await asyncio.to_thread(command.upgrade, alembic_config(url), "head")
    except CommandError as error:
        raise SchemaError(
            f"the database cannot be migrated: {error}. Was it migrated by a newer Precis?"
            " Then upgrade this one"
        ) from error


@cache
def newest() -> str:
    """The newest migration of this version."""
    return ScriptDirectory(str(MIGRATIONS)).get_current_head() or ""


async def pending(url: str) -> str | None:
    """The revision that a migration would change; None for a new database, and for no older one.

    Raises:
        ConfigurationError: the database cannot be reached, or is too old.
    """
    scripts = ScriptDirectory(str(MIGRATIONS))
    async with connect(url, name="precis-migration") as database:
        current = await _revision(database.reads)
    is_older = current in {one.revision for one in scripts.walk_revisions()} - {newest()}
    return current if is_older else None


async def check_schema(engine: AsyncEngine) -> None:
    """Refuses a database that is not at the newest migration.

    Raises:
        SchemaNewer: it is at one that this version does not know.
        SchemaError: it is at an older one, with both revisions and the command that upgrades it; or
            from before the first release.
    """
    scripts, head = ScriptDirectory(str(MIGRATIONS)), newest()
    async with engine.connect() as connection:
        current = await connection.run_sync(_current_revision)
    _refuse_unreleased(current)
    if current and current not in {one.revision for one in scripts.walk_revisions()}:
        raise SchemaNewer(
            f"the database is at migration {current}, this version knows {head}:"
            " upgrade Precis here too"
        )
    if current != head:
        raise SchemaError(
            f"the database is at migration {current or 'none'}, this version needs {head}:"
            " run `precis migrate`"
        )


def alembic_config(url: str) -> Config:
    """Alembic's configuration without an ini file."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    return config


@contextmanager
def _first_contact(url: str) -> Iterator[None]:
    """Turns what goes wrong at the first contact into one line that names the setting."""
    try:
        yield
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # Only the host: behind a password with a slash in it, the rest is not what it seems.
        raise ConfigurationError(
            f"PostgreSQL at {urlsplit(url).hostname or 'a socket'} cannot be used: {error}."
            " Is it running, and is PRECIS_DATABASE_URL right?"
        ) from error
    except ValueError:  # its words may quote the password
        raise ConfigurationError(
            "PRECIS_DATABASE_URL is not an address of the form postgresql://…; in its password,"
            " @, / and : are written as %40, %2F and %3A"
        ) from None


async def _made_ready(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await _check_version(connection)
    # PostgreSQL would plan what an ingest reads anew each time (`sql/ingests.sql`).
    await connection.execute("set plan_cache_mode = force_generic_plan")


async def _check_version(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    version = connection.get_server_version().major
    if version < OLDEST:
        raise ConfigurationError(
            f"the database is PostgreSQL {version}: Precis needs PostgreSQL {OLDEST} or newer"
        )


def _refuse_unreleased(revision: str | None) -> None:
    """Refuses a database from before 1.0.0: its migrations were 0001 to 0027."""
    if revision and revision.startswith("00"):
        raise SchemaError(
            "the database was made by a Precis from before 1.0.0, whose data cannot be taken over:"
            " make a new database and name it in PRECIS_DATABASE_URL"
        )


async def _revision(reads: "Reads | asyncpg.Connection[asyncpg.Record]") -> str | None:
    if await reads.fetchval("select to_regclass('alembic_version')") is None:
        return None
    revision: str | None = await reads.fetchval("select version_num from alembic_version")
    return revision


def _current_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _check_open(dbapi_connection: Any, *_: object) -> None:  # noqa: ANN401 - SQLAlchemy's
    """Has a connection that the server has closed replaced; a ping would be a round trip."""
    if dbapi_connection.driver_connection.is_closed():
        raise DisconnectionError


async def _nothing_to_reset(connection: object) -> None:
    """For a pool whose statements leave nothing in a session.

    A reset after each would be a second round trip, which costs more than the read itself.
    """
