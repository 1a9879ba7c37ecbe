"""Alembic's environment: one transaction a migration, bounded waits, and a lock so that many may start at once."""

import asyncio

from alembic import context
from sqlalchemy import Connection, make_url, pool, text
from sqlalchemy.ext.asyncio import create_async_engine

from service.storage.tables import metadata

_LOCK = 0x5052_4543_4953  # "PRECIS"


def _run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, compare_server_default=True)
    with context.begin_transaction():
        # A lock of the transaction, not of the session: it cannot be left behind in a pooler.
        connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        connection.execute(text("set local lock_timeout = '10s'"))
        connection.execute(text("set local statement_timeout = '10min'"))
        context.run_migrations()


async def _main() -> None:
    url = make_url(context.config.attributes["url"]).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url, poolclass=pool.NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(_run)
        await connection.commit()
    await engine.dispose()


asyncio.run(_main())
