"""The valves that the installer sets: the address, and keys that the database knows."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from service.clients.openwebui import Json
from service.errors import OpenWebUIError
from service.names import FIRST_TENANT, KeyScope
from service.storage import keys
from service.storage.audit import Operator
from service.storage.database import Database
from service.usecases.install.installed import EVENTS, FILTER, Installed, Say, Wish
from service.usecases.keys import choose_summariser, create, revoke

_INSIDE = (".localhost", ".local", ".internal", ".svc", ".svc.cluster.local")  # names inside

Databases = Callable[[], AbstractAsyncContextManager[Database]]


@dataclass(slots=True)
class InstallerKeys:
    """The keys of one Open WebUI by their `name`, the filter's and the events function's.

    The database is opened when it is needed, once.
    """

    name: str
    databases: Databases
    stack: AsyncExitStack
    say: Say
    _database: Database | None = None
    _has_made: bool = False

    async def _open(self) -> Database:
        if self._database is None:
            self._database = await self.stack.enter_async_context(self.databases())
        return self._database

    async def owner(self, key: str, tenant: str | None, scope: KeyScope) -> str | None:
        """The tenant of a key in use; None if it is another than the one that is given."""
        if not key:  # looking would start the embedded servers
            return None
        async with (await self._open()).engine.connect() as connection:
            row = await keys.find(connection, key)
        is_right = row and row.scope == scope and tenant in (None, row.tenant_name)
        return row.tenant_name if row and is_right else None

    async def make(self, tenant: str, scope: KeyScope) -> str:
        """A new key."""
        made = await create((await self._open()).engine, tenant, self.name, scope, self.name)
        self._has_made = True
        self.say(f"{scope} key for tenant {tenant!r}: made")
        return made.key

    async def choose_summariser(self, tenant: str, summariser: str | None) -> None:
        """Stores which model writes a tenant's summaries."""
        engine = (await self._open()).engine
        await choose_summariser(engine, tenant, self.name, summariser)

    async def revoke_others(self, *still_used: str) -> set[str]:
        """Revokes what earlier installs made, once a new key works; without `still_used`, all.

        Returns:
            The names of the tenants whose keys were revoked.
        """
        tenants: set[str] = set()
        if still_used and not self._has_made:
            return tenants
        engine = (await self._open()).engine
        async with engine.connect() as connection:
            mine = [await keys.find(connection, key) for key in still_used]
            everyone = await keys.everyone(connection)
        ids = {key.id for key in mine if key}
        for key in everyone:
            # By name: keys that an operator made for this Open WebUI are not ours to revoke.
            if key.name == self.name and key.id not in ids and key.in_use:
                await revoke(engine, Operator(key.tenant, self.name), key.id)
                self.say(f"key {key.id} ({key.prefix}…): revoked")
                tenants.add(key.tenant_name)
        return tenants


async def valves_of(
    installed: Installed, wish: Wish, wanted: dict[str, str], ours: InstallerKeys
) -> dict[str, Json]:
    """The valves that the installer sets: the address and a working key."""
    now = installed.valves.get(FILTER, {})
    url = (wish.service_url or now.get("service_url") or wish.first_url).rstrip("/")
    if not is_private(url):
        raise OpenWebUIError(
            f"{url} is a public address without https, on which others could read key and chats:"
            " put Precis behind a proxy with https, and pass its address as --service-url"
        )
    right_tenant = wish.tenant in (None, installed.reached.tenant)
    works = not installed.reached.problem and url == now.get("service_url") and right_tenant
    key, tenant = _key_of(installed, FILTER), installed.reached.tenant
    if not works:
        key, tenant = await _filter_key(installed, wish, ours)
    of_events = ""
    if EVENTS in wanted:
        of_events = await _events_key(installed, tenant, ours, works=works)
    return {
        FILTER: {"service_url": url, "api_key": key},
        EVENTS: {"service_url": url, "api_key": of_events},
    }


def is_private(url: str) -> bool:
    """Whether nobody on the way can read along: https, or an address inside."""
    parts = urlsplit(url)
    return parts.scheme != "http" or is_inside(parts.hostname or "")


def is_inside(host: str) -> bool:
    """Whether nobody elsewhere is on the way to a host, by its name or address."""
    host = host.rstrip(".")
    if host.endswith(_INSIDE):
        return True
    try:
        return not ip_address(host.partition("%")[0]).is_global
    except ValueError:
        return "." not in host  # as in a network of containers


async def _filter_key(installed: Installed, wish: Wish, ours: InstallerKeys) -> tuple[str, str]:
    """A key that the database knows, the one that is there or a new one, and its tenant."""
    key = _key_of(installed, FILTER)
    if owner := await ours.owner(key, wish.tenant, "filter"):
        return key, owner
    tenant = wish.tenant or FIRST_TENANT
    return await ours.make(tenant, "filter"), tenant


async def _events_key(
    installed: Installed, tenant: str, ours: InstallerKeys, *, works: bool
) -> str:
    """The events function's own key. Whether it works, nobody can ask; the filter's `works`."""
    key = _key_of(installed, EVENTS)
    is_kept = works and key.startswith("precis_ev_")
    if is_kept or await ours.owner(key, tenant, "events"):
        return key
    return await ours.make(tenant, "events")


def _key_of(installed: Installed, function: str) -> str:
    return str(installed.valves.get(function, {}).get("api_key") or "")
