"""Signs of life: each role of a process says in the database that it lives, until it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from sqlalchemy.exc import SQLAlchemyError

from service import __version__
from service.storage import heartbeats, outage, sealing
from service.storage.jobs import HEARTBEAT, KEY_MISSING, Role
from service.usecases.compress import WorkerContext

_AWAY: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, *outage.AWAY)
_LEAVING = 2  # seconds that the last word may take

log = structlog.get_logger(__name__)


@asynccontextmanager
async def living(context: WorkerContext, role: Role) -> AsyncIterator[None]:
    """Says that this process lives in this role, at once and then every `HEARTBEAT` seconds."""
    await beat(context, role, first=True)
    beating = asyncio.create_task(_go_on(context, role))
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await _leave(context, role)


async def _go_on(context: WorkerContext, role: Role) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT)
        await beat(context, role)


async def beat(context: WorkerContext, role: Role, *, first: bool = False) -> None:
    """Says once that this process lives, and what is amiss with it."""
    try:
        async with context.engine.begin() as connection:
            lacked = await sealing.lacked(connection)
            of_keys = [f"{KEY_MISSING}: {lacked}"] if lacked else []
            await heartbeats.beat(
                connection,
                role,
                context.worker,
                version=__version__,
                summariser=context.by,
                warnings=[*of_keys, *context.warnings],
                first=first,
            )
    except _AWAY as error:  # the next one may get through
        log.warning("heartbeat.failed", role=role, error=type(error).__name__)


async def _leave(context: WorkerContext, role: Role) -> None:
    # Whoever does not get through is silent from now on, and counts as gone soon.
    with suppress(*_AWAY):
        async with asyncio.timeout(_LEAVING), context.engine.begin() as connection:
            await heartbeats.leave(connection, role, context.worker)
