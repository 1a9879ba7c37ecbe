"""Whether an error says that the database is away, or takes nothing in.

Then the same request may succeed later, and nobody's code is to blame.
"""

import socket

import asyncpg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

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
    # Of a connection that ended between two messages of one statement (asyncpg 0.32).
    asyncpg.InternalClientError,
    *_REFUSES,
)

FAILURES: tuple[type[Exception], ...] = (
    SQLAlchemyError,
    OSError,
    asyncpg.PostgresError,
    *AWAY,
)
"""What a statement raises that failed for whatever reason in the database or on the way there."""


def is_away(error: BaseException | None) -> bool:
    """Whether the database could not be reached, took no connection, or stores nothing."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or is_away(_cause(error))
    # asyncpg raises both at once for a wrong argument.
    return isinstance(error, AWAY) and not isinstance(error, ValueError)


def explain_refusal(error: BaseException | None) -> str | None:
    """Why the database answers, but stores nothing, in words; None when that is not it."""
    if isinstance(error, DBAPIError):
        return explain_refusal(_cause(error))
    return next((why for kind, why in _REFUSES.items() if isinstance(error, kind)), None)


def _cause(error: DBAPIError) -> BaseException | None:
    """Asyncpg's own error, below that of SQLAlchemy's dialect."""
    return error.orig.__cause__ if error.orig is not None else None
