"""What was deleted does not come back with an ingest that was under way: tombstones, and locks.

An ingest holds two locks, of its user and of its chat, shared; whoever deletes holds one of them
alone. So a deletion waits for the ingests that began before it and takes what they stored, and
those that begin after it find the tombstone. Locks are taken in this order: user, chat, row.
A deletion of all chats of a user holds the user's lock and the rows; an ingest by somebody else
looks for the tombstone once it has the row.

Ids are stored as hashes, keyed with the tenant's salt: a database without a chat does not say that
there was one.
"""

import hmac
from collections.abc import Collection
from typing import Final, Literal

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import sealing
from service.storage.tables import tenant_secrets, tombstones
from service.storage.terms import among, in_seconds

What = Literal["chat", "user"]

SECONDS: Final = 24 * 3600.0
"""How long a tombstone stands: no ingest is under way for longer."""

# In the order in which they are written: the user's, then the chat's.
_SHARED = text("""
select pg_advisory_xact_lock_shared(hashtextextended(:user, :tenant)),
    pg_advisory_xact_lock_shared(hashtextextended(:chat, :tenant))
""")
_ALONE = text("select pg_advisory_xact_lock(hashtextextended(:name, :tenant))")


async def begin(connection: AsyncConnection, tenant: int, chat: str, user: str) -> None:
    """Begins an ingest: until the transaction ends, nobody deletes this chat or this user."""
    names = {"user": _name("user", user), "chat": _name("chat", chat), "tenant": tenant}
    await connection.execute(_SHARED, names)


async def alone(connection: AsyncConnection, tenant: int, what: What, name: str) -> None:
    """Waits for the ingests of a chat or a user; those that follow wait for this transaction."""
    await connection.execute(_ALONE, {"name": _name(what, name), "tenant": tenant})


async def found(connection: AsyncConnection, tenant: int, chat: str, user: str) -> bool:
    """Whether this chat, or this user, was deleted a short time ago."""
    key = await salt(connection, tenant)
    hashes = [keyed(key, "chat", chat), keyed(key, "user", user)]
    query = select(func.count()).where(
        tombstones.c.tenant_id == tenant,
        among(tombstones.c.hash, hashes),
        tombstones.c.until > func.now(),
    )
    return bool((await connection.execute(query)).scalar_one())


async def put(connection: AsyncConnection, tenant: int, what: What, names: Collection[str]) -> None:
    """Puts tombstones of chats or users."""
    if not names:
        return
    key = await salt(connection, tenant)
    statement = insert(tombstones)
    later = {"until": statement.excluded.until}
    await connection.execute(
        statement.values(until=in_seconds(SECONDS)).on_conflict_do_update(
            index_elements=["tenant_id", "hash"], set_=later
        ),
        [{"tenant_id": tenant, "hash": keyed(key, what, name)} for name in sorted(names)],
    )


async def erased(connection: AsyncConnection, tenant: int, users: Collection[str]) -> set[str]:
    """Those of these users who were deleted a short time ago."""
    key = await _read_salt(connection, tenant)
    if key is None:
        return set()
    by_hash = {keyed(key, "user", user): user for user in users}
    query = select(tombstones.c.hash).where(
        tombstones.c.tenant_id == tenant,
        among(tombstones.c.hash, by_hash),
        tombstones.c.until > func.now(),
    )
    return {by_hash[one] for one in (await connection.execute(query)).scalars()}


async def salt(connection: AsyncConnection, tenant: int) -> bytes:
    """The tenant's key for `keyed`.

    Raises:
        SealedForGood: it is not in this database.
    """
    stored = await _read_salt(connection, tenant)
    if stored is None:
        raise await sealing.seals(connection).lost(tenant)
    return stored


async def _read_salt(connection: AsyncConnection, tenant: int) -> bytes | None:
    query = select(tenant_secrets.c.salt).where(tenant_secrets.c.tenant_id == tenant)
    stored: bytes | None = (await connection.execute(query)).scalar_one_or_none()
    return stored


def keyed(key: bytes, what: What, name: str) -> bytes:
    """The hash that stands for an id: HMAC-SHA-256."""
    return hmac.digest(key, _name(what, name).encode("utf-8", "surrogatepass"), "sha256")


def _name(what: What, name: str) -> str:
    return f"{what}:{name}"
