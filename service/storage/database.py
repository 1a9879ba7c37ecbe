"""Connects to PostgreSQL, migrates it, loads long statements, and recognises outages.

The SQLAlchemy engine is for everything. Two small asyncpg pools are for reads in one statement: one
for reads that every request of a chat waits for, and one for all others.

A PostgreSQL that hangs closes no connection, so every wait for it has a limit.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from asyncpg.pool import PoolConnectionProxy
from sqlalchemy import ExceptionContext, TextClause, event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from service.encryption import EncryptionKeys
from service.errors import ConfigurationError, SchemaError, SchemaNewer
from service.storage import sealing
from service.storage.sealing import Keyring

MIGRATIONS = Path(__file__).parents[2] / "migrations"
_NO_KEYS = EncryptionKeys()
_CONNECTIONS = 15  # of the engine
_SLOW_CONNECTIONS = 5  # of the engine for what may take minutes
OLDEST = 14  # major of PostgreSQL; `scripts/test-postgres` tests from it on
_NEVER_PLAIN: Final = ("require", "verify-ca", "verify-full")  # values of `sslmode`

# Seconds. A request that finds PostgreSQL hanging ends within ten: it waits for a place in the pool
# and then for a new connection, or for a statement and then for its cancellation (SQLAlchemy: 2).
_HOT: Final = 2.0  # for a read of the hot pool, from the wait for a connection to the answer
_READ: Final = 9.0  # the same for all other reads
_PLACE: Final = 3.0  # for a connection of the engine to become free
_OPEN: Final = 5.0  # for a new connection
_CLOSE: Final = 0.2  # for the server to close a connection; the engine closes one after the other
_STATEMENT: Final = 7.0  # for a statement of the engine
LONG: Final = 3600.0
"""Seconds for a statement of what may read or delete whole tables."""


class _Connection(asyncpg.Connection):
    """A connection that ends without the server when that hangs."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Closes it, and waits for the server so many seconds."""
        with suppress(TimeoutError):  # asyncpg has closed it then
            await super().close(timeout=timeout or _CLOSE)


@dataclass(frozen=True, slots=True)
class Reads:
    """A small pool for quick reads; one that takes more than `seconds` raises `TimeoutError`."""

    pool: "asyncpg.Pool[asyncpg.Record]"
    seconds: float
    _ending: set[asyncio.Task[None]] = field(default_factory=set)

    async def fetch(self, query: str, *values: object) -> "list[asyncpg.Record]":
        """All rows."""
        async with self._connection() as connection:
            return await connection.fetch(query, *values)

    async def fetchrow(self, query: str, *values: object) -> "asyncpg.Record | None":
        """The first row."""
        async with self._connection() as connection:
            return await connection.fetchrow(query, *values)

    async def fetchval(self, query: str, *values: object) -> Any:  # noqa: ANN401 - of any column
        """The first value of the first row."""
        async with self._connection() as connection:
            return await connection.fetchval(query, *values)

    @asynccontextmanager
    async def _connection(self) -> "AsyncIterator[PoolConnectionProxy[asyncpg.Record]]":
        async with asyncio.timeout(self.seconds):
            connection = await self.pool.acquire()
            try:
                yield connection
            except BaseException:
                # Nobody waits until the server has cancelled the statement: it may hang.
                ending = asyncio.create_task(self._give_back(connection))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
                raise
            await self.pool.release(connection)

    async def _give_back(self, connection: "PoolConnectionProxy[asyncpg.Record]") -> None:
        with suppress(TimeoutError):  # asyncpg has closed the connection then
            await self.pool.release(connection, timeout=self.seconds)


@dataclass(frozen=True, slots=True)
class Database:
    """The ways to the same PostgreSQL.

    `hot` is for what every request of a chat waits for: its context, and keys. `slow` is for what
    may take minutes, such as retention and erasure: it opens a connection for each use, which a
    server that hangs does not give.
    """

    engine: AsyncEngine
    slow: AsyncEngine
    reads: Reads
    hot: Reads
    keyring: Keyring


@asynccontextmanager
async def connect(
    url: str,
    *,
    name: str = "precis",
    keys: EncryptionKeys = _NO_KEYS,
    statement_seconds: float = _STATEMENT,
) -> AsyncIterator[Database]:
    """Opens all pools; `name` is shown in `pg_stat_activity`.

    Texts are sealed with `keys`; `Keyring.check_keys` says whether these are the right ones.
    Without any, texts are stored as they are. A statement of the engine may take
    `statement_seconds`.
    """
    async with AsyncExitStack() as stack:
        reads = await stack.enter_async_context(_open_reads(url, f"{name}-reads", _READ))
        hot = await stack.enter_async_context(_open_reads(url, f"{name}-hot", _HOT))
        keyring = Keyring(keys, reads)
        options: dict[str, Any] = {
            "pool_timeout": _PLACE,
            "hide_parameters": True,  # they hold what people wrote, and errors are logged
            "execution_options": {sealing.OPTION: keyring},
        }
        engine = make_engine(
            url,
            name,
            statement_seconds,
            pool_size=_CONNECTIONS,
            max_overflow=0,  # what goes over a pool's size is opened and closed for each use
            **options,
        )
        stack.push_async_callback(engine.dispose)
        event.listen(engine.sync_engine, "checkout", _check_open)
        slow = make_engine(
            url,
            f"{name}-slow",
            LONG,
            pool_size=1,
            max_overflow=_SLOW_CONNECTIONS - 1,
            pool_recycle=0,  # never used again
            **options,
        )
        stack.push_async_callback(slow.dispose)
        yield Database(engine, slow, reads, hot, keyring)


@asynccontextmanager
async def _open_reads(url: str, name: str, seconds: float) -> AsyncIterator[Reads]:
    with _check_first_contact(url):
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=4,
            connection_class=_Connection,
            init=_make_ready,
            reset=_reset_nothing,
            server_settings={"application_name": name},
            timeout=_OPEN,
            command_timeout=seconds,  # for what makes a new connection ready
        )
    async with pool:
        yield Reads(pool, seconds)


def make_engine(
    url: str,
    name: str,
    statement_seconds: float | None = None,
    **options: Any,  # noqa: ANN401 - SQLAlchemy's
) -> AsyncEngine:
    """An engine whose connections asyncpg opens by the URL, as it does those of the read pool.

    SQLAlchemy's own reading of a URL knows no `sslmode`. Without `statement_seconds`, a statement
    may take for ever.
    """

    async def opened() -> "asyncpg.Connection[asyncpg.Record]":
        session = {"application_name": name, "timezone": "UTC"}
        return await asyncpg.connect(
            url,
            connection_class=_Connection,
            server_settings=session,
            timeout=_OPEN,
            command_timeout=statement_seconds,
        )

    engine = create_async_engine("postgresql+asyncpg://", async_creator=opened, **options)
    event.listen(engine.sync_engine, "handle_error", _give_up)
    return engine


def _give_up(context: ExceptionContext) -> None:
    """Closes a connection whose statement took too long, instead of a rollback on it."""
    if isinstance(context.original_exception, TimeoutError):
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = False


def is_tls_demanded(url: str) -> bool:
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
    with _check_first_contact(url):
        connection = await asyncpg.connect(url, timeout=_OPEN)
    try:
        await _check_version(connection)
        _refuse_unreleased(await _read_revision(connection))
    finally:
        await connection.close()
    try:
        await asyncio.to_thread(command.upgrade, make_alembic_config(url), "head")
    except CommandError as error:
        raise SchemaError(
            f"the database cannot be migrated: {error}. Was it migrated by a newer Precis?"
            " Then upgrade this one"
        ) from error


@cache
def find_newest_revision() -> str:
    """The newest migration of this version."""
    return ScriptDirectory(str(MIGRATIONS)).get_current_head() or ""


async def list_pending(url: str) -> str | None:
    """The revision that a migration would change; None for a new database, and for no older one.

    Raises:
        ConfigurationError: the database cannot be reached, or is too old.
    """
    scripts = ScriptDirectory(str(MIGRATIONS))
    async with connect(url, name="precis-migration") as database:
        current = await _read_revision(database.reads)
    is_older = current in {one.revision for one in scripts.walk_revisions()} - {
        find_newest_revision()
    }
    return current if is_older else None


async def check_schema(reads: Reads) -> None:
    """Refuses a database that is not at the newest migration.

    Raises:
        SchemaNewer: it is at one that this version does not know.
        SchemaError: it is at an older one, with both revisions and the command that upgrades it; or
            from before the first release.
    """
    scripts, head = ScriptDirectory(str(MIGRATIONS)), find_newest_revision()
    current = await _read_revision(reads)
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


def make_alembic_config(url: str) -> Config:
    """Alembic's configuration without an ini file."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    return config


@contextmanager
def _check_first_contact(url: str) -> Iterator[None]:
    """Turns what goes wrong at the first contact into one line that names the setting."""
    try:
        yield
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        why = f"no answer within {_OPEN:g} s" if isinstance(error, TimeoutError) else error
        # Only the host: behind a password with a slash in it, the rest is not what it seems.
        raise ConfigurationError(
            f"PostgreSQL at {urlsplit(url).hostname or 'a socket'} cannot be used: {why}."
            " Is it running, and is PRECIS_DATABASE_URL right?"
        ) from error
    except ValueError:  # its words may quote the password
        raise ConfigurationError(
            "PRECIS_DATABASE_URL is not an address of the form postgresql://…; in its password,"
            " @, / and : are written as %40, %2F and %3A"
        ) from None


async def _make_ready(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
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


async def _read_revision(reads: "Reads | asyncpg.Connection[asyncpg.Record]") -> str | None:
    if await reads.fetchval("select to_regclass('alembic_version')") is None:
        return None
    revision: str | None = await reads.fetchval("select version_num from alembic_version")
    return revision


def _check_open(dbapi_connection: Any, *_: object) -> None:  # noqa: ANN401 - SQLAlchemy's
    """Has a connection that the server has closed replaced; a ping would be a round trip."""
    if dbapi_connection.driver_connection.is_closed():
        raise DisconnectionError


async def _reset_nothing(connection: object) -> None:
    """For a pool whose statements leave nothing in a session.

    A reset after each would be a second round trip, which costs more than the read itself.
    """


_REFUSES: dict[type[Exception], str] = {
    asyncpg.DiskFullError: "the disk of the database is full",
    asyncpg.OutOfMemoryError: "the database is out of memory",
    asyncpg.ConfigurationLimitExceededError: "a limit of the database is reached",
    asyncpg.ReadOnlySQLTransactionError: "the database is read-only",
}

AWAY: tuple[type[Exception], ...] = (
    ConnectionError,
    TimeoutError,
    PoolTimeoutError,
    socket.gaierror,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # it shuts down, or starts up
    asyncpg.InsufficientResourcesError,  # SQLSTATE 53: too many connections, and below
    asyncpg.InterfaceError,
    # The connection ended between two messages of one statement (asyncpg 0.32).
    asyncpg.InternalClientError,
    *_REFUSES,
)

FAILURES: tuple[type[Exception], ...] = (
    SQLAlchemyError,
    OSError,
    asyncpg.PostgresError,
    *AWAY,
)
"""The errors of a statement that failed in the database or on the way there, for any reason."""


def is_away(error: BaseException | None) -> bool:
    """Whether the database could not be reached, took no connection, or stores nothing."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or is_away(_find_cause(error))
    # asyncpg raises both at once for a wrong argument.
    return isinstance(error, AWAY) and not isinstance(error, ValueError)


def explain_refusal(error: BaseException | None) -> str | None:
    """Why the database answers, but stores nothing, in words; None when that is not it."""
    if isinstance(error, DBAPIError):
        return explain_refusal(_find_cause(error))
    return next((why for kind, why in _REFUSES.items() if isinstance(error, kind)), None)


def _find_cause(error: DBAPIError) -> BaseException | None:
    """Asyncpg's own error, below that of SQLAlchemy's dialect."""
    return error.orig.__cause__ if error.orig is not None else None


_FOLDER = Path(__file__).with_name("sql")
_NAME = re.compile(r"^-- (\w+) --\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")  # no cast (`::bigint`), no slice (`[1:n]`)


class NumberedStatement(NamedTuple):
    """A statement for asyncpg, and what its parameters are called, from `$1` on."""

    sql: str
    names: tuple[str, ...]

    def given(self, values: Mapping[str, Any]) -> list[Any]:
        """The values of its parameters, in their order; `values` may have others too."""
        return [values[name] for name in self.names]


def load_statements(noun: str) -> dict[str, str]:
    """The statements of `sql/noun.sql` by name, without their comments."""
    _, *parts = _NAME.split((_FOLDER / f"{noun}.sql").read_text(encoding="utf-8"))
    return {
        name: _COMMENT.sub("", statement)
        for name, statement in zip(parts[::2], parts[1::2], strict=True)
    }


def load_texts(noun: str, **parts: str) -> dict[str, TextClause]:
    """The statements of `sql/noun.sql` by name, as SQLAlchemy takes them.

    `{name}` in one of them stands for another statement of the file, or for one of `parts`.
    """
    statements = load_statements(noun)
    known = statements | parts
    texts = {}
    for name, statement in statements.items():
        # A part that was put in may name another part.
        while "{" in statement:
            statement = statement.format(**known)
        texts[name] = text(statement)
    return texts


def number_parameters(statement: str) -> NumberedStatement:
    """A statement as asyncpg takes it."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(statement)))
    sql = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    return NumberedStatement(sql, names)
