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
from typing import Final, Literal, NamedTuple

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import sealing
from service.storage.tables import tenant_secrets, tombstones
from service.storage.terms import after_seconds


class DeletionTarget(NamedTuple):
    """A chat or a user, by Open WebUI's id."""

    what: Literal["chat", "user"]
    id: str

    @property
    def text(self) -> str:
        """What is locked and hashed."""
        return f"{self.what}:{self.id}"


SECONDS: Final = 24 * 3600.0
"""How long a tombstone stands: no ingest is under way for longer."""

# In the order in which they are written: the user's, then the chat's.
_SHARED = text("""
select pg_advisory_xact_lock_shared(hashtextextended(:user, :tenant)),
    pg_advisory_xact_lock_shared(hashtextextended(:chat, :tenant))
""")
_ALONE = text("select pg_advisory_xact_lock(hashtextextended(:name, :tenant))")


async def lock_for_ingest(connection: AsyncConnection, tenant: int, chat: str, user: str) -> None:
    """Begins an ingest: until the transaction ends, nobody deletes this chat or this user."""
    names = {"user": DeletionTarget("user", user).text, "chat": DeletionTarget("chat", chat).text}
    await connection.execute(_SHARED, names | {"tenant": tenant})


async def lock_for_deletion(connection: AsyncConnection, tenant: int, name: DeletionTarget) -> None:
    """Waits for the ingests of a chat or a user; those that follow wait for this transaction."""
    await connection.execute(_ALONE, {"name": name.text, "tenant": tenant})


async def put_tombstones(
    connection: AsyncConnection, tenant: int, names: Collection[DeletionTarget]
) -> None:
    """Puts tombstones of chats and users."""
    if not names:
        return
    hashes = await hash_names(connection, tenant, sorted(names))
    statement = insert(tombstones)
    later = {"until": statement.excluded.until}
    await connection.execute(
        statement.values(until=after_seconds(SECONDS)).on_conflict_do_update(
            index_elements=["tenant_id", "hash"], set_=later
        ),
        [{"tenant_id": tenant, "hash": one} for one in hashes.values()],
    )


async def hash_names(
    connection: AsyncConnection, tenant: int, names: Collection[DeletionTarget]
) -> dict[DeletionTarget, bytes]:
    """The hashes that stand for ids: HMAC-SHA-256, keyed with the tenant's salt.

    Raises:
        SealedForGood: the salt is not in this database.
    """
    salt = await _read_salt(connection, tenant)
    if salt is None:
        raise await sealing.keyring_of(connection).explain_lost_secrets(tenant)
    return {name: hash_name(salt, name) for name in names}


async def _read_salt(connection: AsyncConnection, tenant: int) -> bytes | None:
    query = select(tenant_secrets.c.salt).where(tenant_secrets.c.tenant_id == tenant)
    stored: bytes | None = (await connection.execute(query)).scalar_one_or_none()
    return stored


def hash_name(salt: bytes, name: DeletionTarget) -> bytes:
    """The hash that stands for a name."""
    return hmac.digest(salt, name.text.encode("utf-8", "surrogatepass"), "sha256")
