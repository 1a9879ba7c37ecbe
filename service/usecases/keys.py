"""API keys, the same for REST and the command line: made, listed, revoked, each with an audit row.

A key itself is told once, to whoever made it; what is stored is its hash.
"""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from service.errors import NotFound
from service.storage import audit, keys
from service.storage.keys import Key, Scope
from service.usecases.operate import Operator


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A new key: its row, and the `key` itself, which cannot be shown again."""

    row: Key
    key: str


async def list_keys(engine: AsyncEngine, tenant: int) -> list[Key]:
    """A tenant's keys, revoked ones too, the oldest first."""
    async with engine.connect() as connection:
        return await keys.of_tenant(connection, tenant)


async def create(engine: AsyncEngine, tenant: str, actor: str, scope: Scope, name: str) -> MadeKey:
    """Makes a key, and the tenant if it is new."""
    async with engine.begin() as connection:
        key = await keys.create(connection, tenant, scope, name)
        row = await keys.find(connection, key)
        if row is None:
            raise RuntimeError("a key that was just made is not there")
        await audit.record(
            connection, row.tenant, actor, "key.create", None, key=row.id, scope=scope, name=name
        )
    return MadeKey(row, key)


async def revoke(engine: AsyncEngine, by: Operator, identity: int) -> None:
    """Revokes a key of the operator's own tenant.

    Raises:
        NotFound: this tenant has no such key in use.
    """
    await _revoke(engine, by.tenant, by.actor, identity)


async def revoke_any(engine: AsyncEngine, actor: str, identity: int) -> None:
    """Revokes a key of whatever tenant, for whoever runs the service itself.

    Raises:
        NotFound: there is no such key in use.
    """
    await _revoke(engine, None, actor, identity)


async def _revoke(engine: AsyncEngine, tenant: int | None, actor: str, identity: int) -> None:
    async with engine.begin() as connection:
        found = await keys.one(connection, identity)
        own = found is not None and tenant in (None, found.tenant)
        if found is None or not own or not await keys.revoke(connection, identity):
            raise NotFound(f"there is no key {identity} in use; see `precis keys list`")
        await audit.record(
            connection, found.tenant, actor, "key.revoke", None, key=identity, name=found.name
        )
