"""API keys: shown once, stored as a hash, each with a scope and a tenant."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.tables import api_keys, tenants

Scope = Literal["filter", "operator"]

_SHOWN = 14  # characters of a key that may be shown later, to tell keys apart


@dataclass(frozen=True, slots=True)
class Key:
    """A stored key; the key itself is not stored."""

    id: int
    tenant: int
    tenant_name: str
    scope: Scope
    name: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None

    @property
    def actor(self) -> str:
        """How the audit log names who used it."""
        return f"{self.prefix}… {self.name}"


_COLUMNS = (
    api_keys.c.id,
    api_keys.c.tenant_id,
    tenants.c.name.label("tenant_name"),
    api_keys.c.scope,
    api_keys.c.name,
    api_keys.c.prefix,
    api_keys.c.created_at,
    api_keys.c.revoked_at,
)


def hash_of(key: str) -> bytes:
    """SHA-256 of a key."""
    # A key is 256 random bits, so a slow hash would add nothing but time to every request.
    return hashlib.sha256(key.encode()).digest()


async def create(connection: AsyncConnection, tenant: str, scope: Scope, name: str) -> str:
    """Makes a key, and the tenant if it is new.

    Returns:
        The key itself, which is not stored and cannot be shown again.
    """
    made = insert(tenants).values(name=tenant)
    # Changes nothing in a tenant that is there; `do nothing` would not return it.
    query = made.on_conflict_do_update(index_elements=["name"], set_={"name": made.excluded.name})
    tenant_id = (await connection.execute(query.returning(tenants.c.id))).scalar_one()
    key = f"precis_{scope[:2]}_{secrets.token_urlsafe(32)}"
    await connection.execute(
        insert(api_keys).values(
            tenant_id=tenant_id, scope=scope, name=name, prefix=key[:_SHOWN], hash=hash_of(key)
        )
    )
    return key


async def find(connection: AsyncConnection, key: str) -> Key | None:
    """The key's row, unless it is unknown or revoked."""
    query = (
        select(*_COLUMNS)
        .join(tenants)
        .where(api_keys.c.hash == hash_of(key), api_keys.c.revoked_at.is_(None))
    )
    row = (await connection.execute(query)).one_or_none()
    return Key(*row) if row else None


async def everyone(connection: AsyncConnection) -> list[Key]:
    """All keys of all tenants, revoked ones too."""
    rows = await connection.execute(select(*_COLUMNS).join(tenants).order_by(api_keys.c.id))
    return [Key(*row) for row in rows]


async def of_tenant(connection: AsyncConnection, tenant: int) -> list[Key]:
    """A tenant's keys, revoked ones too."""
    query = select(*_COLUMNS).join(tenants).where(api_keys.c.tenant_id == tenant)
    return [Key(*row) for row in await connection.execute(query.order_by(api_keys.c.id))]


async def one(connection: AsyncConnection, identity: int) -> Key | None:
    """The key with this id, of whatever tenant."""
    query = select(*_COLUMNS).join(tenants).where(api_keys.c.id == identity)
    row = (await connection.execute(query)).one_or_none()
    return Key(*row) if row else None


async def revoke(connection: AsyncConnection, identity: int) -> bool:
    """Revokes a key; False when there is no such key, or it was revoked before."""
    query = (
        update(api_keys)
        .where(api_keys.c.id == identity, api_keys.c.revoked_at.is_(None))
        .values(revoked_at=func.now())
    )
    return (await connection.execute(query)).rowcount == 1


async def tenant(connection: AsyncConnection, name: str) -> int | None:
    """The tenant's id; None when there is no such tenant."""
    return (
        await connection.execute(select(tenants.c.id).where(tenants.c.name == name))
    ).scalar_one_or_none()


async def erase_tenant(connection: AsyncConnection, name: str) -> bool:
    """Deletes a tenant with its salt, its keys and everything stored for it; False for none.

    Without the salt, what is sealed for it in copies of the database cannot be opened either.
    """
    gone = await connection.execute(delete(tenants).where(tenants.c.name == name))
    return gone.rowcount == 1
