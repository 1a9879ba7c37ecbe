"""Stores API keys, sessions of the pages, and the audit log.

A key is shown once and stored as a hash, with a scope and a tenant. A session begins with a key and
ends with it; the cookie's value is stored as a hash, too. The audit log has one row for each change
of an operator, written in the transaction of the change.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import asyncpg, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.names import KeyScope as KeyScope
from service.storage import sealing
from service.storage.database import Reads
from service.storage.tables import after_seconds, api_keys, audit, endpoints, sessions, tenants

OPENS: Final[Mapping[KeyScope, frozenset[KeyScope]]] = {
    "filter": frozenset({"filter"}),
    "events": frozenset({"events"}),
    "operator:read": frozenset({"operator:read"}),
    "operator": frozenset({"operator:read", "operator"}),
}
"""The scopes that a key of each scope opens."""

_SHOWN = 14  # characters of a key that may be shown later, to tell keys apart
_SHORT: Final[Mapping[KeyScope, str]] = {
    "filter": "fi",
    "events": "ev",
    "operator:read": "or",
    "operator": "op",
}


@dataclass(frozen=True, slots=True)
class Operator:
    """An actor, as the audit log names them, in a tenant."""

    tenant: int
    actor: str


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is stored, by its first characters (`prefix`); the key itself is not stored.

    `seconds_left` until it expires are null without an expiry, and negative after it.
    `last_used_at` is some seconds late, `last_filter` the version of the filter, events function or
    tool that asked last with it.
    """

    id: int
    tenant: int
    tenant_name: str
    scope: KeyScope
    name: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None
    last_filter: str | None
    seconds_left: float | None

    @property
    def by(self) -> Operator:
        """The key's user, as the audit log names them."""
        return Operator(self.tenant, f"{self.prefix}… {self.name}")

    @property
    def in_use(self) -> bool:
        """Whether it opens anything: neither revoked nor expired."""
        return self.revoked_at is None and (self.seconds_left is None or self.seconds_left > 0)


class KeyUse(NamedTuple):
    """The last use of a key: when, as seconds since 1970, and by which version of the filter."""

    at: float
    filter: str


_LEFT: Final = func.extract("epoch", api_keys.c.expires_at - func.now())
_COLUMNS = (
    api_keys.c.id,
    api_keys.c.tenant_id.label("tenant"),
    tenants.c.name.label("tenant_name"),
    api_keys.c.scope,
    api_keys.c.name,
    api_keys.c.prefix,
    api_keys.c.created_at,
    api_keys.c.revoked_at,
    api_keys.c.expires_at,
    api_keys.c.last_used_at,
    api_keys.c.last_filter,
    _LEFT.label("seconds_left"),
)


def select_keys() -> Select[*tuple[Any, ...]]:
    """All keys, with the columns that `make_key` reads."""
    return select(*_COLUMNS).join(tenants, tenants.c.id == api_keys.c.tenant_id)


# For the pool of the quick reads, which takes no statements of SQLAlchemy.
_DIALECT: Final = asyncpg.dialect()  # type: ignore[no-untyped-call]
_KNOWN: Final = str(
    select_keys().where(api_keys.c.hash == bindparam("hash")).compile(dialect=_DIALECT)
)


_SUMMARISER_OF: Final = "select summariser from tenants where tenants.id = $1"


def hash_key(key: str) -> bytes:
    """SHA-256 of a key."""
    # A key is 256 random bits, so a slow hash would add nothing but time to every request.
    return hashlib.sha256(key.encode()).digest()


def is_in_use() -> ColumnElement[bool]:
    """A condition on `api_keys`: neither revoked nor expired."""
    is_valid = or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > func.now())
    return api_keys.c.revoked_at.is_(None) & is_valid


async def create_key(
    connection: AsyncConnection,
    tenant: str,
    scope: KeyScope,
    name: str,
    *,
    seconds: float | None = None,
    key: str | None = None,
) -> str:
    """Makes a key, and the tenant if it is new.

    `seconds` until it expires are None for never. A `key` that was made elsewhere must have a
    prefix of its scope.

    Returns:
        The key itself, which is not stored and cannot be shown again.
    """
    tenant_id = await _ensure_tenant(connection, tenant)
    key = key or f"precis_{_SHORT[scope]}_{secrets.token_urlsafe(32)}"
    await connection.execute(
        insert(api_keys).values(
            tenant_id=tenant_id,
            scope=scope,
            name=name,
            prefix=key[:_SHOWN],
            hash=hash_key(key),
            expires_at=None if seconds is None else after_seconds(seconds),
        )
    )
    return key


async def _ensure_tenant(connection: AsyncConnection, name: str) -> int:
    """A tenant's id; a new one gets its secrets."""
    new = insert(tenants).values(name=name).on_conflict_do_nothing().returning(tenants.c.id)
    identity = await connection.scalar(new)
    if identity is None:
        query = select(tenants.c.id).where(tenants.c.name == name)
        identity = (await connection.scalars(query)).one()
    else:
        await sealing.keyring_of(connection).create_secrets(connection, identity)
    return int(identity)


async def find_known_key(reads: Reads, key: str) -> Key | None:
    """The key's row, revoked and expired ones too; None when it is unknown."""
    row = await reads.fetchrow(_KNOWN, hash_key(key))
    return make_key(dict(row)) if row else None


async def find_valid_key(connection: AsyncConnection, key: str) -> Key | None:
    """The key's row, unless it is unknown, revoked or expired."""
    query = select_keys().where(api_keys.c.hash == hash_key(key), is_in_use())
    return await _find_one(connection, query)


async def find_key(connection: AsyncConnection, identity: int) -> Key | None:
    """The key with this id, of whatever tenant."""
    return await _find_one(connection, select_keys().where(api_keys.c.id == identity))


async def _find_one(connection: AsyncConnection, query: Select[*tuple[Any, ...]]) -> Key | None:
    row = (await connection.execute(query)).mappings().one_or_none()
    return make_key(row) if row else None


async def list_keys(connection: AsyncConnection, tenant: int | None = None) -> list[Key]:
    """All keys of a tenant, or of all tenants, the oldest first; revoked and expired ones too."""
    query = select_keys().order_by(api_keys.c.id)
    if tenant is not None:
        query = query.where(api_keys.c.tenant_id == tenant)
    return [make_key(row) for row in (await connection.execute(query)).mappings()]


async def revoke_key(connection: AsyncConnection, identity: int) -> bool:
    """Revokes a key; False when there is no such key, or it was revoked before."""
    query = (
        update(api_keys)
        .where(api_keys.c.id == identity, api_keys.c.revoked_at.is_(None))
        .values(revoked_at=func.now())
    )
    return (await connection.execute(query)).rowcount == 1


async def note_uses(connection: AsyncConnection, uses: Mapping[int, KeyUse]) -> None:
    """Stores when keys were used last. A filter's version stays until another one asks."""
    # In the order of ids, so that two processes do not wait for each other.
    for identity, use in sorted(uses.items()):
        latest = func.greatest(api_keys.c.last_used_at, func.to_timestamp(use.at))
        values: dict[str, Any] = {"last_used_at": latest}
        if use.filter:
            values["last_filter"] = use.filter
        query = update(api_keys).where(api_keys.c.id == identity)
        await connection.execute(query.values(values))


async def choose_summariser(
    connection: AsyncConnection, name: str, summariser: str | None
) -> int | None:
    """Says which of its host's models writes a tenant's summaries, as `tables.tenants` has it.

    Returns:
        The tenant's id; None when there is no such tenant.
    """
    chosen = update(tenants).where(tenants.c.name == name).values(summariser=summariser)
    found: int | None = await connection.scalar(chosen.returning(tenants.c.id))
    return found


async def find_summariser(reads: Reads, tenant: int) -> str | None:
    """The model of its host that writes a tenant's summaries, as `tables.tenants` has it."""
    summariser: str | None = await reads.fetchval(_SUMMARISER_OF, tenant)
    return summariser


async def find_tenant(connection: AsyncConnection, name: str) -> int | None:
    """The tenant's id; None when there is no such tenant."""
    return await connection.scalar(select(tenants.c.id).where(tenants.c.name == name))


async def erase_tenant(connection: AsyncConnection, name: str) -> bool:
    """Deletes a tenant with its secrets, its keys and everything stored for it; False for none.

    Without the secrets, what is sealed for it in copies of the database cannot be opened either.
    """
    deleted = delete(tenants).where(tenants.c.name == name).returning(tenants.c.id)
    identity = await connection.scalar(deleted)
    # Breakers refer to nobody, because the fleet's have no tenant.
    await connection.execute(delete(endpoints).where(endpoints.c.tenant_id == identity))
    return identity is not None


def make_key(row: Mapping[Any, Any]) -> Key:
    """A key of a row of `select_keys`."""
    fields = {name: row[name] for name in Key.__dataclass_fields__}
    fields["seconds_left"] = None if row["seconds_left"] is None else float(row["seconds_left"])
    return Key(**fields)


@dataclass(frozen=True, slots=True)
class Change:
    """A row of the audit log: the actor, the action, the chat (Open WebUI's id) and the time."""

    id: int
    at: datetime
    actor: str
    action: str
    chat: str | None
    details: dict[str, Any]


def name_user(user: str) -> str:
    """The name of an Open WebUI user in the audit log."""
    return f"user {user}"


async def list_changes(
    connection: AsyncConnection,
    tenant: int,
    *,
    chat: str | None = None,
    actor: str | None = None,
    before: int | None = None,
    limit: int,
) -> list[Change]:
    """A tenant's changes, newest first; `before` is the last id of the page before.

    `chat` and `actor` are exact.
    """
    columns = [audit.c[name] for name in Change.__dataclass_fields__]
    query = select(*columns).where(audit.c.tenant_id == tenant)
    if chat is not None:
        query = query.where(audit.c.chat == chat)
    if actor is not None:
        query = query.where(audit.c.actor == actor)
    if before is not None:
        query = query.where(audit.c.id < before)
    query = query.order_by(audit.c.id.desc()).limit(limit)
    return [Change(*row) for row in await connection.execute(query)]


async def record_change(
    connection: AsyncConnection,
    by: Operator,
    action: str,
    chat: str | None,
    /,
    **details: Any,  # noqa: ANN401
) -> None:
    """Notes who did what; `details` must be JSON."""
    await connection.execute(
        insert(audit).values(
            tenant_id=by.tenant, actor=by.actor, action=action, chat=chat, details=details
        )
    )


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
    query = select_keys().join(sessions, sessions.c.key_id == api_keys.c.id)
    is_open = sessions.c.expires_at > func.now()
    return await _find_one(connection, query.where(sessions.c.hash == hashed, is_open, is_in_use()))


async def end_session(connection: AsyncConnection, hashed: bytes) -> None:
    """Forgets one session."""
    await connection.execute(delete(sessions).where(sessions.c.hash == hashed))
