"""API keys, the same for REST, pages and the command line; each change leaves an audit row.

They are made, listed, replaced and revoked. A key itself is told once, to whoever made it; what is
stored is its hash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import NotFound, Unprocessable
from service.names import Scope
from service.storage import audit, keys
from service.storage.keys import Key
from service.usecases.operate import Operator

MOST_NETWORKS: Final = 50
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key to make: `days` until it expires, `networks` from where it is to open anything."""

    scope: Scope
    name: str = ""
    days: int | None = None
    networks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A new key: its row, and the `key` itself, which cannot be shown again."""

    row: Key
    key: str


async def list_keys(engine: AsyncEngine, tenant: int) -> list[Key]:
    """A tenant's keys, revoked and expired ones too, the oldest first."""
    async with engine.connect() as connection:
        return await keys.of_tenant(connection, tenant)


async def create(engine: AsyncEngine, tenant: str, actor: str, wanted: Wanted) -> MadeKey:
    """Makes a key, and the tenant if it is new.

    Raises:
        Unprocessable: a network is none.
    """
    networks = read_networks(wanted.networks)
    seconds = None if wanted.days is None else wanted.days * _DAY
    async with engine.begin() as connection:
        made = await _make(connection, tenant, wanted.scope, wanted.name, seconds, networks)
        told = {"expires_days": wanted.days, "networks": networks}
        more = {name: value for name, value in told.items() if value}
        await audit.record(
            connection,
            made.row.tenant,
            actor,
            "key.create",
            None,
            key=made.row.id,
            scope=wanted.scope,
            name=wanted.name,
            **more,
        )
    return made


async def _make(
    connection: AsyncConnection,
    tenant: str,
    scope: Scope,
    name: str,
    seconds: float | None,
    networks: Sequence[str],
) -> MadeKey:
    key = await keys.create(connection, tenant, scope, name, seconds=seconds, networks=networks)
    row = await keys.find(connection, key)
    if row is None:
        raise RuntimeError("a key that was just made is not there")
    return MadeKey(row, key)


async def rotate(engine: AsyncEngine, by: Operator, identity: int, hours: float) -> MadeKey:
    """Makes a key like one of the operator's own tenant, which ends after so many `hours`.

    The new one has the same scope, name and networks, and as long a life, from now on.

    Raises:
        NotFound: this tenant has no such key in use.
    """
    return await _rotate(engine, by.tenant, by.actor, identity, hours)


async def rotate_any(engine: AsyncEngine, actor: str, identity: int, hours: float) -> MadeKey:
    """The same for a key of whatever tenant, for whoever runs the service itself."""
    return await _rotate(engine, None, actor, identity, hours)


async def _rotate(
    engine: AsyncEngine, tenant: int | None, actor: str, identity: int, hours: float
) -> MadeKey:
    async with engine.begin() as connection:
        old = await _in_use(connection, tenant, identity)
        life = None
        if old.expires_at is not None:
            life = (old.expires_at - old.created_at).total_seconds()
        made = await _make(connection, old.tenant_name, old.scope, old.name, life, old.networks)
        await keys.end_in(connection, identity, hours * 3600)
        await audit.record(
            connection,
            old.tenant,
            actor,
            "key.rotate",
            None,
            key=identity,
            name=old.name,
            by=made.row.id,
            grace_hours=hours,
        )
    return made


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
        found = await _in_use(connection, tenant, identity)
        if not await keys.revoke(connection, identity):
            raise _missing(identity)
        await audit.record(
            connection, found.tenant, actor, "key.revoke", None, key=identity, name=found.name
        )


async def _in_use(connection: AsyncConnection, tenant: int | None, identity: int) -> Key:
    found = await keys.one(connection, identity)
    if found is None or tenant not in (None, found.tenant) or not found.in_use:
        raise _missing(identity)
    return found


def _missing(identity: int) -> NotFound:
    return NotFound(f"there is no key {identity} in use; see `precis keys list`")


def read_networks(given: Sequence[str]) -> list[str]:
    """Networks as they are stored: `10.1.2.3/8` becomes `10.0.0.0/8`, and an address a network.

    Raises:
        Unprocessable: one of them is none.
    """
    return [_network(text) for text in given]


def _network(text: str) -> str:
    try:
        return str(ip_network(text.strip(), strict=False))
    except ValueError:
        raise Unprocessable(
            f"{text[:50]!r} is no network; give one such as 10.0.0.0/8, 192.168.1.7 or fd00::/8"
        ) from None


async def record_refusal(
    engine: AsyncEngine, key: Key, action: str, why: str, address: str
) -> None:
    """Notes in the audit log that a key was refused, why, and from which address it came."""
    details = {"key": key.id, "why": why, "address": address}
    async with engine.begin() as connection:
        await audit.record(connection, key.tenant, key.actor, action, None, **details)


# The hot read asks too: a filter's key may have networks.
@lru_cache(maxsize=4096)
def is_within(address: str, networks: tuple[str, ...]) -> bool:
    """Whether an address lies in one of the networks; anywhere does when there are none."""
    if not networks:
        return True
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    # A socket that listens on IPv6 names IPv4 addresses as `::ffff:10.0.0.1`.
    plain = ip.ipv4_mapped if isinstance(ip, IPv6Address) and ip.ipv4_mapped else ip
    return any(plain in ip_network(one) for one in networks)
