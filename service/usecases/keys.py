"""API keys; each change leaves an audit row.

They are made, listed and revoked. A key itself is told once, to whoever made it; what is
stored is its hash.
"""

import re
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import ConfigurationError, NotFound
from service.names import FIRST_TENANT, KeyScope
from service.storage import keys
from service.storage.keys import Key, Operator

_DAY: Final = 86_400
_OPERATOR_KEY: Final = re.compile(r"precis_op_[\w-]{43,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MadeKey(Key):
    """A new key, with the `key` itself, told this once."""

    key: str


async def list_keys(engine: AsyncEngine, tenant: int) -> list[Key]:
    """A tenant's keys, revoked and expired ones too, the oldest first."""
    async with engine.connect() as connection:
        return await keys.list_keys(connection, tenant)


async def create_key(
    engine: AsyncEngine,
    tenant: str,
    actor: str,
    scope: KeyScope,
    name: str,
    days: int | None = None,
) -> MadeKey:
    """Makes a key that expires after so many `days`, and the tenant if it is new."""
    seconds = None if days is None else days * _DAY
    async with engine.begin() as connection:
        key = await keys.create_key(connection, tenant, scope, name, seconds=seconds)
        more = {"expires_days": days} if days else {}
        row = await _note_made(connection, actor, key, **more)
    return MadeKey(**asdict(row), key=key)


async def store_first_key(engine: AsyncEngine, actor: str, key: str) -> bool:
    """Stores a key that was made elsewhere as an operator key of the first tenant.

    Returns:
        False when nothing was stored, because an operator key is in use already.

    Raises:
        ConfigurationError: it is no key that could be guessed by nobody, or it was revoked.
    """
    async with engine.begin() as connection:
        if any(one.scope == "operator" and one.in_use for one in await keys.list_keys(connection)):
            return False
        if not _OPERATOR_KEY.fullmatch(key):
            raise ConfigurationError(
                "PRECIS_KEY cannot become the first operator key: that is `precis_op_` and at least"
                " 43 random letters and digits, as scripts/secrets makes it"
            )
        try:
            await keys.create_key(connection, FIRST_TENANT, "operator", "first key", key=key)
        except IntegrityError:
            raise ConfigurationError(
                "the key of PRECIS_KEY was revoked: put another one there"
            ) from None
        await _note_made(connection, actor, key)
    return True


async def _note_made(connection: AsyncConnection, actor: str, key: str, **more: int) -> Key:
    row = await keys.find_valid_key(connection, key)
    assert row
    details = {"key": row.id, "scope": row.scope, "name": row.name, **more}
    await keys.record_change(connection, Operator(row.tenant, actor), "key.create", None, **details)
    return row


async def revoke_key(engine: AsyncEngine, by: Operator, identity: int) -> None:
    """Revokes a key of the operator's own tenant.

    Raises:
        NotFound: this tenant has no such key in use.
    """
    async with engine.begin() as connection:
        key = await keys.find_key(connection, identity)
        is_ours = key is not None and key.tenant == by.tenant and key.in_use
        if not (key and is_ours and await keys.revoke_key(connection, identity)):
            raise NotFound(f"there is no key {identity} in use; see `precis keys list`")
        details = {"key": identity, "name": key.name}
        await keys.record_change(connection, by, "key.revoke", None, **details)


async def choose_summariser(
    engine: AsyncEngine, tenant: str, actor: str, summariser: str | None
) -> None:
    """Says which of its host's models writes a tenant's summaries, as `tables.tenants` has it."""
    async with engine.begin() as connection:
        identity = await keys.choose_summariser(connection, tenant, summariser)
        if identity is not None:
            by = Operator(identity, actor)
            await keys.record_change(
                connection, by, "summariser.choose", None, summariser=summariser
            )
