"""Sessions of the pages: who signed in with which key, and until when.

The cookie's value is stored as a hash only. A session ends with its key.
"""

from sqlalchemy import delete, func
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import keys
from service.storage.keys import Key
from service.storage.tables import api_keys, sessions
from service.storage.terms import after_seconds


async def begin_session(
    connection: AsyncConnection, key: int, hashed: bytes, seconds: float
) -> None:
    """Stores a session of a key, and forgets all that have expired."""
    await connection.execute(delete(sessions).where(sessions.c.expires_at <= func.now()))
    await connection.execute(
        insert(sessions).values(key_id=key, hash=hashed, expires_at=after_seconds(seconds))
    )


async def find_session_key(connection: AsyncConnection, hashed: bytes) -> Key | None:
    """The key with which a cookie's session began.

    None when the session is unknown, or it or its key has ended.
    """
    query = keys.select_keys().join(sessions, sessions.c.key_id == api_keys.c.id)
    here = (sessions.c.hash == hashed, sessions.c.expires_at > func.now(), keys.is_in_use())
    row = (await connection.execute(query.where(*here))).mappings().one_or_none()
    return keys.make_key(row) if row else None


async def end_session(connection: AsyncConnection, hashed: bytes) -> None:
    """Forgets one session."""
    await connection.execute(delete(sessions).where(sessions.c.hash == hashed))
