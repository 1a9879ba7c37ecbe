"""Whether an error says that the database is away.

Then the same request may succeed a moment later.
"""

import socket

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

AWAY: tuple[type[Exception], ...] = (
    ConnectionError,
    TimeoutError,
    PoolTimeoutError,
    socket.gaierror,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # it shuts down, or starts up
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    # Of a connection that ended between two messages of one statement (asyncpg 0.32).
    asyncpg.InternalClientError,
)


def is_away(error: BaseException | None) -> bool:
    """Whether the database could not be reached, took no connection, or ended it."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or (
            error.orig is not None and is_away(error.orig.__cause__)
        )
    # asyncpg raises both at once for a wrong argument.
    return isinstance(error, AWAY) and not isinstance(error, ValueError)
