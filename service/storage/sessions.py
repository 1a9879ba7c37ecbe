"""Sessions of the pages: who signed in with which key, and until when.

The cookie's value is stored as a hash only. A session ends with its key.
"""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.names import Scope
from service.storage import keys
from service.storage.tables import api_keys, sessions, tenants
from service.storage.terms import in_seconds


class Session(NamedTuple):
    """A session that has not expired, and the key with which it began."""

    tenant: int
    tenant_name: str
    key: int
    prefix: str
    name: str
    scope: Scope
    networks: list[str] | None
    expires_at: datetime

    @property
    def actor(self) -> str:
        """How the audit log names who used it: as it names the key."""
        return f"{self.prefix}… {self.name}"


async def begin(connection: AsyncConnection, key: int, hashed: bytes, seconds: float) -> None:
    """Stores a session of a key, and forgets all that have expired."""
    await connection.execute(delete(sessions).where(sessions.c.expires_at <= func.now()))
    await connection.execute(
        insert(sessions).values(key_id=key, hash=hashed, expires_at=in_seconds(seconds))
    )


async def find(connection: AsyncConnection, hashed: bytes) -> Session | None:
    """The session of a cookie; None when it is unknown, or it or its key has ended."""
    query = (
        select(
            tenants.c.id,
            tenants.c.name,
            api_keys.c.id,
            api_keys.c.prefix,
            api_keys.c.name,
            api_keys.c.scope,
            api_keys.c.networks,
            sessions.c.expires_at,
        )
        .select_from(sessions.join(api_keys).join(tenants))
        .where(
            sessions.c.hash == hashed,
            sessions.c.expires_at > func.now(),
            keys.unexpired(),
        )
    )
    row = (await connection.execute(query)).one_or_none()
    return Session(*row) if row else None


async def end(connection: AsyncConnection, hashed: bytes) -> None:
    """Forgets one session."""
    await connection.execute(delete(sessions).where(sessions.c.hash == hashed))


async def end_all(connection: AsyncConnection, key: int) -> int:
    """Forgets all sessions of a key; returns how many those were."""
    return (await connection.execute(delete(sessions).where(sessions.c.key_id == key))).rowcount
