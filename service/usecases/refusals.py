"""Notes a key that was refused in the audit log of its tenant."""

from sqlalchemy.ext.asyncio import AsyncEngine

from service.storage import audit
from service.storage.keys import Key


async def note(engine: AsyncEngine, key: Key, action: str, why: str, address: str) -> None:
    """Stores that a key was refused, why, and from which address it came."""
    async with engine.begin() as connection:
        await audit.record(
            connection, key.tenant, key.actor, action, None, key=key.id, why=why, address=address
        )
