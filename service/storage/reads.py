"""The asyncpg pool of the reads that must be quick, behind the wall between tenants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from service.storage import scope
from service.storage.scope import Scope

_ENTER = "select set_config('role', $1, false), set_config('precis.tenant', $2, false)"
# One round trip for both; a transaction's settings end with it.
_BEGIN = "begin; set local role {}; set local precis.tenant = '{}'"


class ReadPool:
    """Connections in the role and for the tenant of the present task (`scope`).

    A connection keeps both from one read to the next, so that a read costs one round trip. Not so
    behind PgBouncer, where a session's settings would be another client's: there each read is a
    transaction, which costs two more.

    Args:
        pool: of plain connections.
        entered: the role and tenant of each connection, by its backend's process id; whoever opens
            one removes what is there of an earlier one.
        row_security: whether it is in force (`storage.row_security`).
        pooled: whether PgBouncer is between.
    """

    def __init__(
        self,
        pool: "asyncpg.Pool[asyncpg.Record]",
        entered: dict[int, Scope],
        *,
        row_security: bool,
        pooled: bool,
    ) -> None:
        self.plain = pool
        self.row_security = row_security
        self._pooled = pooled
        self._entered = entered

    @asynccontextmanager
    async def acquire(self) -> "AsyncIterator[asyncpg.pool.PoolConnectionProxy[asyncpg.Record]]":
        """A connection."""
        async with self.plain.acquire() as connection:
            if self.row_security and self._pooled:
                async with _transaction(connection):
                    yield connection
                return
            if self.row_security:
                await self._enter(connection)
            yield connection

    async def fetch(self, query: str, *given: object) -> "list[asyncpg.Record]":
        """All rows."""
        async with self.acquire() as connection:
            return await connection.fetch(query, *given)

    async def fetchrow(self, query: str, *given: object) -> "asyncpg.Record | None":
        """The first row; None when there is none."""
        if self._pooled:
            async with self.acquire() as connection:
                return await connection.fetchrow(query, *given)
        # The hot read, for which the context of `acquire` would take longer than all else here.
        async with self.plain.acquire() as connection:
            if self.row_security:
                await self._enter(connection)
            return await connection.fetchrow(query, *given)

    async def fetchval(self, query: str, *given: object) -> Any:  # noqa: ANN401 - of any type
        """The first value of the first row."""
        async with self.acquire() as connection:
            return await connection.fetchval(query, *given)

    async def _enter(self, connection: "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]") -> None:
        wanted = scope.current()
        number = connection.get_server_pid()
        if self._entered.get(number) != wanted:
            # Until it is certain: a read that is cancelled here may have entered or not.
            self._entered.pop(number, None)
            await connection.execute(_ENTER, *wanted)
            self._entered[number] = wanted


@asynccontextmanager
async def _transaction(
    connection: "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]",
) -> AsyncIterator[None]:
    await connection.execute(_BEGIN.format(*scope.current()))
    try:
        yield
    except BaseException:
        await connection.execute("rollback")
        raise
    await connection.execute("commit")
