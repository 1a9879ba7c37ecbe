"""Alembic's environment: all pending migrations in one transaction, with a lock and bounded waits.

So an upgrade succeeds as a whole or leaves the schema as it was, and several processes may start
one at the same time: the lock lets one of them go first, and the others find nothing left to do.
"""

import asyncio

import structlog
from alembic import context
from alembic.runtime.migration import MigrationInfo
from sqlalchemy import Connection, pool, text

from service.storage.database import make_engine

log = structlog.get_logger(__name__)

_LOCK = 0x5052_4543_4953  # "PRECIS"
_applied: list[str] = []  # this file is read again for each run


def _run(connection: Connection) -> None:
    context.configure(connection=connection, on_version_apply=_note)
    with context.begin_transaction():
        # A lock of the transaction, not of the session: it cannot be left behind in a pooler. It
        # and the settings end with the transaction, which therefore has to be one for all.
        connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        # After the lock, which may be waited for as long as another process migrates. From here on
        # the tables may be locked, so no wait and no statement may hold up their readers for long.
        connection.execute(text("set local lock_timeout = '10s'"))
        connection.execute(text("set local statement_timeout = '10min'"))
        context.run_migrations()
    if _applied:
        log.info("migrations.applied", steps=_applied)


def _note(ctx: object, step: MigrationInfo, *_: object, **__: object) -> None:
    """One log line tells all migrations. Alembic calls this by names, typed as if by place."""
    del ctx
    went = "up" if step.is_upgrade else "down"
    _applied.append(f"{went} {step.up_revision_id}")


async def _main() -> None:
    url = context.config.attributes["url"]
    engine = make_engine(url, "precis-migration", poolclass=pool.NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(_run)
        await connection.commit()
    await engine.dispose()


asyncio.run(_main())
