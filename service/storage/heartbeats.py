"""Signs of life of the service and its workers: written here, read by `jobs.alive`."""

from collections.abc import Sequence

from sqlalchemy import delete, func
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.jobs import Role
from service.storage.tables import heartbeats
from service.storage.terms import in_seconds

_KEPT = 24 * 3600  # seconds; of processes that ended without a word


async def beat(
    connection: AsyncConnection,
    role: Role,
    name: str,
    *,
    version: str,
    summariser: str,
    warnings: Sequence[str],
    first: bool,
) -> None:
    """Notes that a process lives, and forgets those that have been silent for a day.

    `first` at its start: another one may have had its name before.
    """
    said = {
        "version": version,
        "summariser": summariser,
        "warnings": list(warnings),
        "seen_at": func.now(),
    }
    started = {"started_at": func.now()}
    await connection.execute(
        insert(heartbeats)
        .values(role=role, name=name, **said, **started)
        .on_conflict_do_update(
            index_elements=["role", "name"], set_=said | started if first else said
        )
    )
    await connection.execute(delete(heartbeats).where(heartbeats.c.seen_at < in_seconds(-_KEPT)))


async def leave(connection: AsyncConnection, role: Role, name: str) -> None:
    """Notes that a process has ended."""
    ended = heartbeats.c.role == role, heartbeats.c.name == name
    await connection.execute(delete(heartbeats).where(*ended))
