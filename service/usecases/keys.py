"""API keys; each change leaves an audit row.

They are made, listed and revoked. A key itself is told once, to whoever made it; what is
stored is its hash.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from service.errors import ConfigurationError, NotFound, Unprocessable
from service.names import FIRST_TENANT, KeyScope
from service.storage import audit, keys
from service.storage.audit import Operator
from service.storage.keys import Key

MOST_NETWORKS: Final = 50
_DAY: Final = 86_400
_OPERATOR_KEY: Final = re.compile(r"precis_op_[\w-]{43,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MadeKey(Key):
    """A new key, with the `key` itself, told this once."""

    key: str


async def list_keys(engine: AsyncEngine, tenant: int) -> list[Key]:
    """A tenant's keys, revoked and expired ones too, the oldest first."""
    async with engine.connect() as connection:
        return await keys.everyone(connection, tenant)


async def create(
    engine: AsyncEngine,
    tenant: str,
    actor: str,
    scope: KeyScope,
    name: str,
    days: int | None = None,
    networks: Sequence[str] = (),
) -> MadeKey:
    """Makes a key, and the tenant if it is new.

    `days` are until it expires, `networks` those from where it is to open anything.

    Raises:
        Unprocessable: a network is none.
    """
    allowed = read_networks(networks)
    seconds = None if days is None else days * _DAY
    async with engine.begin() as connection:
        key = await keys.create(connection, tenant, scope, name, seconds=seconds, networks=allowed)
        row = await keys.find(connection, key)
        assert row
        limits = {"expires_days": days, "networks": allowed}
        more = {name: value for name, value in limits.items() if value}
        await audit.record(
            connection,
            Operator(row.tenant, actor),
            "key.create",
            None,
            key=row.id,
            scope=scope,
            name=name,
            **more,
        )
    return MadeKey(**asdict(row), key=key)


async def store_first(engine: AsyncEngine, actor: str, key: str) -> bool:
    """Stores a key that was made elsewhere as an operator key of the first tenant.

    Returns:
        False when nothing was stored, because an operator key is in use already.

    Raises:
        ConfigurationError: it is no key that could be guessed by nobody, or it was revoked.
    """
    async with engine.begin() as connection:
        if any(one.scope == "operator" and one.in_use for one in await keys.everyone(connection)):
            return False
        if not _OPERATOR_KEY.fullmatch(key):
            raise ConfigurationError(
                "PRECIS_KEY cannot become the first operator key: that is `precis_op_` and at least"
                " 43 random letters and digits, as scripts/secrets makes it"
            )
        try:
            await keys.create(connection, FIRST_TENANT, "operator", "first key", key=key)
        except IntegrityError:
            raise ConfigurationError(
                "the key of PRECIS_KEY was revoked: put another one there"
            ) from None
        row = await keys.find(connection, key)
        assert row
        details = {"key": row.id, "scope": row.scope, "name": row.name}
        await audit.record(connection, Operator(row.tenant, actor), "key.create", None, **details)
    return True


async def revoke(engine: AsyncEngine, by: Operator, identity: int) -> None:
    """Revokes a key of the operator's own tenant.

    Raises:
        NotFound: this tenant has no such key in use.
    """
    async with engine.begin() as connection:
        key = await keys.one(connection, identity)
        is_ours = key is not None and key.tenant == by.tenant and key.in_use
        if not (key and is_ours and await keys.revoke(connection, identity)):
            raise NotFound(f"there is no key {identity} in use; see `precis keys list`")
        details = {"key": identity, "name": key.name}
        await audit.record(connection, by, "key.revoke", None, **details)


def read_networks(texts: Sequence[str]) -> list[str]:
    """Networks as they are stored: `10.1.2.3/8` becomes `10.0.0.0/8`, and an address a network.

    Raises:
        Unprocessable: one of them is none.
    """
    return [_network(text) for text in texts]


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
        await audit.record(connection, key.by, action, None, **details)


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
