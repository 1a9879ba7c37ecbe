"""Use case: put Precis into an Open WebUI, keep it up to date there, take it out again.

That is the filter, the events function, the action and the tool, with their valves and keys.
`install` and `uninstall` are told from top to bottom here; `present` finds what is there, `models`
lists the models. A run that finds everything as wished changes nothing.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from service.clients.openwebui import Json, OpenWebUI, Tool
from service.errors import OpenWebUIError
from service.names import FIRST_TENANT, KeyScope
from service.settings import Settings
from service.storage import keys
from service.storage.database import Database
from service.storage.keys import Operator
from service.usecases.install.addresses import is_private
from service.usecases.install.models import check_writer, describe_writer, list_models
from service.usecases.install.present import (
    ACTION,
    EVENTS,
    FILTER,
    FUNCTIONS,
    RECALL,
    TITLES_AND_DESCRIPTIONS,
    FilterCheck,
    Installation,
    check_reach,
    check_single,
    find_installed,
    list_supported_functions,
    read_source,
)
from service.usecases.keys import choose_summariser, create_key, revoke_key

__all__ = ["Say", "Wish", "install", "uninstall"]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """An admin's choices: with the tool (`recall`) and the buttons (`action`), or without.

    `summariser` is `chat` for each chat's own model, `none`, or the id of another model. Other
    values that are None leave what is there; a first installation takes `first_url`, the first
    tenant, and each chat's own model.
    """

    service_url: str | None
    tenant: str | None
    first_url: str
    summariser: str | None = None
    recall: bool = True
    action: bool = True


async def install(
    webui: OpenWebUI, wish: Wish, database: Database, say: Say, settings: Settings
) -> list[Json]:
    """Installs or updates the functions and the tool, and checks that the filter works.

    Returns:
        The models, as `list_models` tells them by these settings.

    Raises:
        OpenWebUIError: something is in the way; or all is done, but the filter does not reach the
            service.
    """
    await check_writer(webui, wish.summariser)
    functions = list_supported_functions(webui.version)
    installed = await find_installed(webui)
    check_single(installed.functions)
    issuer = _KeyIssuer(database, f"install-filter {webui.url}", say)
    valves = await _choose_valves(webui, installed, wish, EVENTS in functions, issuer)
    changes = _Changes(webui, installed, say)
    # The tool comes before the filter, which offers it to models.
    await changes.put_tool(wish.recall)
    for name in functions:
        if name == ACTION and not wish.action:
            await changes.delete_function(ACTION)
        else:
            await changes.put_function(name, valves.get(name, {}))
    # On all models at the end, when everything that it needs is there.
    if wish.action:
        await changes.switch_on_everywhere(ACTION, "buttons")
    await changes.switch_on_everywhere(FILTER, "filter")
    if not changes.any:
        say("nothing to change")
    check = await check_reach(webui, valves[FILTER]["service_url"])
    if check.problem:
        raise OpenWebUIError(
            f"the filter is installed, but does not work: {check.problem}."
            f" From here, Precis is at {wish.first_url}"
        )
    # Only now that the new key has worked: until then the old one may be all there is.
    await issuer.revoke_others({one["api_key"] for one in valves.values()})
    check = check._replace(summariser=await _store_writer(issuer, check, wish.summariser))
    say(f"the filter in Open WebUI reaches Precis {check.version} as tenant {check.tenant!r}.")
    say(describe_writer(check))
    return list_models(await webui.models(), check, settings)


async def uninstall(webui: OpenWebUI, database: Database, say: Say) -> None:
    """Deletes the functions, the tool and their keys.

    The chats stay stored; `precis chats delete` deletes one.
    """
    installed = await find_installed(webui)
    changes = _Changes(webui, installed, say)
    for name in FUNCTIONS:
        await changes.delete_function(name)
    await changes.put_tool(False)
    issuer = _KeyIssuer(database, f"install-filter {webui.url}", say)
    for tenant in await issuer.revoke_others(set()):
        await choose_summariser(database.engine, tenant, issuer.name, None)
    if not changes.any:
        say("no function of Precis is in this Open WebUI")


@dataclass(slots=True)
class _Changes:
    """Changes in an Open WebUI; `any` says whether there was one."""

    webui: OpenWebUI
    installed: Installation
    say: Say
    any: bool = False

    async def _make(self, what: str, change: Awaitable[object]) -> None:
        # Said before it is made, so that an error in it stands below its name.
        self.say(what)
        self.any = True
        await change

    async def put_tool(self, is_wanted: bool) -> None:
        """Creates, updates and shares the tool, or deletes it when it is not wanted."""
        tool = self.installed.tool
        if not is_wanted:
            if tool:
                await self._make(f"tool {RECALL}: deleted", self.webui.delete(RECALL, "tools"))
            return
        if self.webui.tools_off:
            self.say(
                "tools are switched off in Open WebUI, so no model can look up what a summary"
                " covers: start it without ENABLE_TOOLS=false"
            )
            return
        text = read_source(RECALL)
        if tool is None:
            create_tool = self.webui.create_tool(RECALL, *TITLES_AND_DESCRIPTIONS[RECALL], text)
            release = _release(text)
            await self._make(f"tool {RECALL} {release}: created, for everybody", create_tool)
        else:
            await self._update_tool(tool, text)

    async def _update_tool(self, tool: Tool, text: str) -> None:
        if tool.source != text:
            change = f"tool {RECALL}: {_release(tool.source)} replaced by {_release(text)}"
            await self._make(change, self.webui.update_tool(tool, text))
        # A tool made manually is its owner's alone; grants to some groups or users stay.
        if tool.private:
            change = f"tool {RECALL}: shared with everybody"
            await self._make(change, self.webui.share_tool(tool))

    async def put_function(self, name: str, valves: Json) -> None:
        """Creates or updates a function, sets these valves, and switches it on."""
        function, text = self.installed.functions.get(name), read_source(name)
        if function is None:
            creation = self.webui.create(name, *TITLES_AND_DESCRIPTIONS[name], text)
            await self._make(f"function {name} {_release(text)}: created", creation)
        elif (before := await self.webui.source(name)) != text:
            change = f"function {name}: {_release(before)} replaced by {_release(text)}"
            await self._make(change, self.webui.update(function, text))
        # The key comes before the switch, so that no request meets a filter without one.
        now = self.installed.valves.get(name, {})
        differ = [valve for valve, value in valves.items() if now.get(valve) != value]
        if differ:
            # Open WebUI replaces all valves, so those that an admin has set are sent again.
            setting = self.webui.set_valves(name, now | valves)
            await self._make(f"valves of {name}: {', '.join(differ)} set", setting)
        if function is None or not function.active:
            await self._make(f"function {name}: switched on", self.webui.toggle(name))

    async def switch_on_everywhere(self, name: str, title: str) -> None:
        """Switches a function on for all models."""
        function = self.installed.functions.get(name)
        if function is None or not function.everywhere:
            await self._make(f"{title} on all models: on", self.webui.toggle(name, "/global"))

    async def delete_function(self, name: str) -> None:
        """Deletes a function, if it is there."""
        if name in self.installed.functions:
            await self._make(f"function {name}: deleted", self.webui.delete(name))


def _release(text: str) -> str:
    """The version in a function's first lines."""
    match = re.search(r"^version:\s*(\S+)", text, re.MULTILINE)
    return match[1] if match else "of an unknown version"


@dataclass(frozen=True, slots=True)
class _KeyIssuer:
    """The keys of one Open WebUI in the database, by their `name`."""

    database: Database
    name: str
    say: Say

    async def owner(self, key: str, scope: KeyScope, tenant: str | None) -> str | None:
        """The tenant of a key in use; None if it has another scope, or not the given tenant."""
        async with self.database.engine.connect() as connection:
            row = await keys.find_valid_key(connection, key)
        is_right = row and row.scope == scope and tenant in (None, row.tenant_name)
        return row.tenant_name if row and is_right else None

    async def make(self, tenant: str, scope: KeyScope) -> str:
        """Makes a key."""
        made = await create_key(self.database.engine, tenant, self.name, scope, self.name)
        self.say(f"{scope} key for tenant {tenant!r}: made")
        return made.key

    async def revoke_others(self, still_used: set[str]) -> set[str]:
        """Revokes what earlier installations made; returns the names of those keys' tenants."""
        engine = self.database.engine
        async with engine.connect() as connection:
            used = [await keys.find_valid_key(connection, key) for key in still_used]
            everyone = await keys.list_keys(connection)
        used_ids = {key.id for key in used if key}
        tenants: set[str] = set()
        for key in everyone:
            # Only keys of this name: an operator's own keys for this Open WebUI are not ours.
            if key.name == self.name and key.id not in used_ids and key.in_use:
                await revoke_key(engine, Operator(key.tenant, self.name), key.id)
                self.say(f"key {key.id} ({key.prefix}…): revoked")
                tenants.add(key.tenant_name)
        return tenants


async def _choose_valves(
    webui: OpenWebUI, installed: Installation, wish: Wish, has_events: bool, issuer: _KeyIssuer
) -> dict[str, Json]:
    """The valves of the filter and the events function: the address, and a key that works."""
    url = (wish.service_url or installed.valve(FILTER, "service_url") or wish.first_url).rstrip("/")
    if not is_private(url):
        raise OpenWebUIError(
            f"{url} is a public address without https, on which others could read key and chats:"
            " put Precis behind a proxy with https, and pass its address as --service-url"
        )
    tenant = await _find_tenant(webui, installed, url, wish.tenant)
    works = tenant is not None
    filter_key = installed.valve(FILTER, "api_key")
    if tenant is None:
        tenant = await issuer.owner(filter_key, "filter", wish.tenant)
    if tenant is None:
        tenant = wish.tenant or FIRST_TENANT
        filter_key = await issuer.make(tenant, "filter")
    valves = {FILTER: {"service_url": url, "api_key": filter_key}}
    if has_events:
        key = installed.valve(EVENTS, "api_key")
        # Nobody can ask whether this key works, so it counts as the filter's.
        if not (works and key.startswith("precis_ev_")):
            key = await _make_events_key(issuer, key, tenant)
        valves[EVENTS] = {"service_url": url, "api_key": key}
    return valves


async def _make_events_key(issuer: _KeyIssuer, key: str, tenant: str) -> str:
    """The key of the events function if the database knows it, else a new one."""
    if await issuer.owner(key, "events", tenant):
        return key
    return await issuer.make(tenant, "events")


async def _find_tenant(
    webui: OpenWebUI, installed: Installation, url: str, wanted: str | None
) -> str | None:
    """The tenant as which the filter reaches this address now; None if it is not the wanted one."""
    if installed.valve(FILTER, "service_url") != url:
        return None
    check = await check_reach(webui, url)
    is_wanted = not check.problem and wanted in (None, check.tenant)
    return check.tenant if is_wanted else None


async def _store_writer(issuer: _KeyIssuer, check: FilterCheck, wanted: str | None) -> str | None:
    """Stores who writes summaries, unless it is stored already; as `tables.tenants` has it."""
    before = check.summariser
    wanted = wanted or ("chat" if before is None else before)
    chosen = "" if wanted == "none" else wanted
    if chosen != before:
        await choose_summariser(issuer.database.engine, check.tenant, issuer.name, chosen)
    return chosen
