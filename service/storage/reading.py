"""One connection for a command that only reads, without the import of SQLAlchemy and Alembic.

These take longer than such a command does.
"""

from pathlib import Path
from typing import Final

import asyncpg

_VERSIONS: Final = Path(__file__).parents[2] / "migrations" / "versions"


async def connect(url: str, *, name: str) -> "asyncpg.Connection[asyncpg.Record] | None":
    """A connection to a database at the newest migration; None when there is something amiss.

    `database.connect` and `database.check_schema` then say what it is. `name` is shown in
    `pg_stat_activity`.
    """
    try:
        connection = await asyncpg.connect(url, server_settings={"application_name": name})
    except (
        OSError,
        ValueError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
    ):
        return None
    if await _revision(connection) == newest():
        return connection
    await connection.close()
    return None


def newest() -> str:
    """The newest migration of this version. Files begin with their revision."""
    return max(file.name.partition("_")[0] for file in _VERSIONS.glob("[0-9]*.py"))


async def _revision(connection: "asyncpg.Connection[asyncpg.Record]") -> str | None:
    try:
        found: str | None = await connection.fetchval("select version_num from alembic_version")
    except asyncpg.PostgresError:
        return None
    return found
