"""Use case: put Precis into an Open WebUI, keep it as it should be, take it out again.

That is the filter, the events function, the action and the tool, their valves and a key.

In: a signed-in Open WebUI, a wish, a way to the database, where keys are made. Out: what was done,
line by line. A run that finds everything as wished changes nothing.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from service.clients.openwebui import (
    Function,
    Json,
    OpenWebUI,
    RequestRefused,
    Tool,
)
from service.errors import OpenWebUIError
from service.names import FIRST_TENANT, KeyScope
from service.planning import policy
from service.storage import keys
from service.storage.database import Database

FILTER, EVENTS, ACTION = "precis", "precis_events", "precis_action"
RECALL = "precis_recall"

_DESCRIBED = {
    FILTER: ("Precis", "Keeps long chats inside the model's context window."),
    EVENTS: ("Precis events", "Tells Precis about deleted and edited chats."),
    ACTION: ("Precis action", "Shows users the summary of a chat, and renews it."),
    RECALL: ("Precis recall", "Looks up what a summary of Precis covers."),
}
_FILES = {
    FILTER: "precis_filter.py",
    EVENTS: "precis_events.py",
    ACTION: "precis_action.py",
}
_TYPES = {FILTER: "filter", EVENTS: "event", ACTION: "action"}
_OLDEST, _WITH_EVENTS = (0, 9, 6), (0, 10)

_INSIDE = (".localhost", ".local", ".internal", ".svc", ".svc.cluster.local")  # names inside

_TOOLS_OFF = (
    "tools are switched off in Open WebUI, so no model can look up what a summary covers: start it"
    " without ENABLE_TOOLS=false"
)

Databases = Callable[[], AbstractAsyncContextManager[Database]]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """How it should be. `models` empty is all of them.

    `recall` is whether there is the tool, and `action` whether there are the buttons.

    None leaves it as it is; at the first time it is `first_url` and the first tenant.
    """

    models: tuple[str, ...]
    service_url: str | None
    tenant: str | None
    first_url: str
    recall: bool = True
    action: bool = True


class Fix(NamedTuple):
    """One thing that is not as it should be, and what fixes it."""

    what: str
    make: Callable[[], Awaitable[object]]


class Reached(NamedTuple):
    """What the filter, inside Open WebUI, says of the service that answers it.

    `problem` is None when all is well.
    """

    problem: str | None
    version: str = ""
    tenant: str = ""
    crowded: Sequence[Json] = ()
    assumed: Sequence[Json] = ()
    """The models whose tools leave little room, as the service has them."""


@dataclass(frozen=True, slots=True)
class Installed:
    """How it is."""

    functions: dict[str, Function]
    sources: dict[str, str]
    valves: dict[str, Json]
    filters: dict[str, list[str]]
    """Of each wished model, those that it has by name."""
    models: dict[str, str]
    tool: Tool | None
    reached: Reached


async def install(
    webui: OpenWebUI, wish: Wish, databases: Databases, say: Say, *, dry: bool
) -> None:
    """Makes it as wished.

    Raises:
        OpenWebUIError: something is in the way; or all is done, but the filter does not reach the
            service.
    """
    wanted = _wanted(webui, wish)
    installed = await _look(webui, wish, wanted)
    if wish.recall and webui.tools_off:
        say(_TOOLS_OFF)
    async with AsyncExitStack() as stack:
        harness = _Keys(webui.url, databases, stack, dry)
        valves = await _valves(installed, wish, wanted, harness, say)
        changes = _changes(webui, installed, wish, wanted, valves)
        await _carry_out(changes, say, dry=dry)
        if not changes:
            say("nothing to change")
        if dry:
            return
        url = valves[FILTER]["service_url"]
        reached = await _reach(webui, wish, url) if changes else installed.reached
        if reached.problem:
            raise OpenWebUIError(f"the filter is installed, but does not work: {reached.problem}")
        # Only now that the new key has worked: until then the old one may be all there is.
        await harness.revoke_others(say, valves[FILTER]["api_key"], valves[EVENTS]["api_key"])
    say(f"the filter in Open WebUI reaches Precis {reached.version} as tenant {reached.tenant!r}.")
    for one in reached.crowded:
        say(f"{one['model']}: {policy.crowding(one['window'], one['overhead'])}")
    for one in reached.assumed:
        say(
            f"{one['model']}: a window of {one['window']:,} tokens is assumed! Nobody told it:"
            " set it in PRECIS_MODELS"
        )


async def uninstall(webui: OpenWebUI, databases: Databases, say: Say, *, dry: bool) -> None:
    """Takes the functions, the tool and their keys away.

    What is stored of chats stays; `precis chats delete` deletes it.
    """
    functions = await webui.functions()
    changes = [_without(webui, model) for model in await webui.models_with(FILTER)]
    for name in _FILES:
        changes += _without_function(webui, functions, name)
    changes += _without_tool(webui, await _our_tool(webui))
    await _carry_out(changes, say, dry=dry)
    if dry:
        say("keys of the installer: revoked")
        return
    async with AsyncExitStack() as stack:
        await _Keys(webui.url, databases, stack, dry).revoke_others(say)
    if not changes:
        say("no function of Precis is in this Open WebUI")


async def _carry_out(changes: Sequence[Fix], say: Say, *, dry: bool) -> None:
    for change in changes:
        # Before it is made, so that an error in it stands below its name.
        say(change.what)
        if not dry:
            await change.make()


class _Keys:
    """The keys of one Open WebUI, the filter's and the events function's.

    The database is opened when it is needed, once.
    """

    def __init__(self, url: str, databases: Databases, stack: AsyncExitStack, dry: bool) -> None:
        self._name = f"install-filter {url}"
        self._databases = databases
        self._stack = stack
        self._dry = dry
        self._database: Database | None = None
        self._has_made = False

    async def _open(self) -> Database:
        if self._database is None:
            self._database = await self._stack.enter_async_context(self._databases())
        return self._database

    async def owner(self, key: str, tenant: str | None, scope: KeyScope) -> str | None:
        """The tenant of a key in use; None if it is another than the one that is given."""
        if self._dry or not key:  # looking would start the embedded servers
            return None
        async with (await self._open()).engine.connect() as connection:
            row = await keys.find(connection, key)
        is_right = row and row.scope == scope and tenant in (None, row.tenant_name)
        return row.tenant_name if row and is_right else None

    async def make(self, tenant: str, scope: KeyScope, say: Say) -> str:
        """A new key."""
        key = "(a new key)"
        if not self._dry:
            async with (await self._open()).engine.begin() as connection:
                key = await keys.create(connection, tenant, scope, self._name)
            self._has_made = True
        say(f"{scope} key for tenant {tenant!r}: made")
        return key

    async def revoke_others(self, say: Say, *still_used: str) -> None:
        """Revokes what earlier installs made, once a new key works; without `still_used`, all."""
        if still_used and not self._has_made:
            return
        async with (await self._open()).engine.begin() as connection:
            mine = [await keys.find(connection, key) for key in still_used]
            ids = {key.id for key in mine if key}
            for key in await keys.everyone(connection):
                # By name: keys that an operator made for this Open WebUI are not ours to revoke.
                ours = key.name == self._name and key.id not in ids
                if ours and key.revoked_at is None:
                    await keys.revoke(connection, key.id)
                    say(f"key {key.id} ({key.prefix}…): revoked")


def _wanted(webui: OpenWebUI, wish: Wish) -> dict[str, str]:
    """The wished functions that this version takes, by id, and their texts."""
    if webui.version < _OLDEST:
        raise OpenWebUIError(
            f"Open WebUI {_dotted(webui.version)} is too old: Precis needs {_dotted(_OLDEST)} or"
            " newer"
        )
    names = {FILTER}
    if webui.version >= _WITH_EVENTS:
        names.add(EVENTS)
    if wish.action:
        names.add(ACTION)
    folder = files("filter_stub")
    return {
        name: (folder / file).read_text(encoding="utf-8")
        for name, file in _FILES.items()
        if name in names
    }


async def _our_tool(webui: OpenWebUI) -> Tool | None:
    """The tool, if it is there.

    Raises:
        OpenWebUIError: there is another one of its id.
    """
    tool = await webui.tool(RECALL)
    if tool is not None and tool.title != _DESCRIBED[RECALL][0]:
        raise OpenWebUIError(
            f"the tool {RECALL!r} in Open WebUI is not of Precis: its title is {tool.title!r};"
            " delete it, or give it another id"
        )
    return tool


async def _look(webui: OpenWebUI, wish: Wish, wanted: dict[str, str]) -> Installed:
    functions = await webui.functions()
    _check_functions(functions)
    tool = await _our_tool(webui)
    models = await webui.models()
    _check_models(wish, models)
    present = [name for name in wanted if name in functions]
    sources = {name: await webui.source(name) for name in present}
    valves = {name: await webui.valves(name) for name in present}
    filters = {model: await webui.filters_of(model) for model in wish.models}
    reached = Reached("it is not installed")
    if FILTER in present:
        reached = await _reach(webui, wish, str(valves[FILTER].get("service_url")))
    return Installed(functions, sources, valves, filters, models, tool, reached)


def _check_functions(functions: dict[str, Function]) -> None:
    """Whether the ids are free or ours, and no other function is the filter too."""
    for name in _FILES:
        if name in functions:
            _check_ours(functions[name])
    for other in functions.values():
        is_filter = other.active and other.title == _DESCRIBED[FILTER][0]
        if is_filter and other.id not in _FILES:
            raise OpenWebUIError(
                f"the function {other.id!r} in Open WebUI is a second copy of the filter:"
                " delete it, or both would run"
            )


def _check_models(wish: Wish, models: dict[str, str]) -> None:
    for model in wish.models:
        if model not in models:
            names = ", ".join(sorted(models)) or "none"
            raise OpenWebUIError(f"Open WebUI has no model {model!r}; it has {names}")


def _check_ours(function: Function) -> None:
    if function.type != _TYPES[function.id] or not function.title.startswith("Precis"):
        raise OpenWebUIError(
            f"the function {function.id!r} in Open WebUI is not of Precis: its title is"
            f" {function.title!r}; delete it in Open WebUI, or give it another id"
        )


async def _valves(
    installed: Installed, wish: Wish, wanted: dict[str, str], harness: _Keys, say: Say
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
        key, tenant = await _filter_key(installed, wish, harness, say)
    of_events = ""
    if EVENTS in wanted:
        of_events = await _events_key(installed, tenant, harness, say, works=works)
    return {
        FILTER: {"service_url": url, "api_key": key},
        EVENTS: {"service_url": url, "api_key": of_events},
    }


def is_private(url: str) -> bool:
    """Whether nobody on the way can read along: https, or an address inside."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme != "http" or host.endswith(_INSIDE):
        return True
    try:
        return not ip_address(host.partition("%")[0]).is_global
    except ValueError:
        return "." not in host  # as in a network of containers


async def _filter_key(
    installed: Installed, wish: Wish, harness: _Keys, say: Say
) -> tuple[str, str]:
    """A key that the database knows, the one that is there or a new one, and its tenant."""
    key = _key_of(installed, FILTER)
    if owner := await harness.owner(key, wish.tenant, "filter"):
        return key, owner
    tenant = wish.tenant or FIRST_TENANT
    return await harness.make(tenant, "filter", say), tenant


async def _events_key(
    installed: Installed, tenant: str, harness: _Keys, say: Say, *, works: bool
) -> str:
    """The events function's own key. Whether it works, nobody can ask; the filter's `works`."""
    key = _key_of(installed, EVENTS)
    is_kept = works and key.startswith("precis_ev_")
    if is_kept or await harness.owner(key, tenant, "events"):
        return key
    return await harness.make(tenant, "events", say)


def _key_of(installed: Installed, function: str) -> str:
    return str(installed.valves.get(function, {}).get("api_key") or "")


def _changes(
    webui: OpenWebUI,
    installed: Installed,
    wish: Wish,
    wanted: dict[str, str],
    valves: dict[str, Json],
) -> list[Fix]:
    # The tool comes before the filter, which offers it to models.
    changes = _of_tool(webui, installed, wish)
    for name, text in wanted.items():
        changes += _of_function(webui, installed, name, text, valves.get(name, {}))
    changes += _of_action(webui, installed, wish)
    the_filter = installed.functions.get(FILTER)
    if (the_filter is not None and the_filter.everywhere) == bool(wish.models):
        says = "off, it works on the named ones" if wish.models else "on"
        changes.append(
            Fix(f"filter on all models: {says}", partial(webui.toggle, FILTER, "/global"))
        )
    for model, has in installed.filters.items():
        if FILTER not in has:
            title = installed.models[model]
            make = partial(webui.set_filters, model, title, [*has, FILTER])
            changes.append(Fix(f"filter on model {model}: on", make))
    return changes


def _of_function(
    webui: OpenWebUI, installed: Installed, name: str, text: str, valves: Json
) -> list[Fix]:
    """What one function lacks."""
    function = installed.functions.get(name)
    changes = []
    if function is None:
        make = partial(webui.create, name, *_DESCRIBED[name], text)
        changes.append(Fix(f"function {name} {_release(text)}: created", make))
    elif installed.sources[name] != text:
        change = (
            f"function {name}: {_release(installed.sources[name])} replaced by {_release(text)}"
        )
        changes.append(Fix(change, partial(webui.update, function, text)))
    # The key comes before the switch, so that no request meets a filter without one.
    changes += _of_valves(webui, installed, name, valves)
    if function is None or not function.active:
        changes.append(Fix(f"function {name}: switched on", partial(webui.toggle, name)))
    return changes


def _of_action(webui: OpenWebUI, installed: Installed, wish: Wish) -> list[Fix]:
    """The buttons are for all chats, or they are there against the wish."""
    if not wish.action:
        return _without_function(webui, installed.functions, ACTION)
    function = installed.functions.get(ACTION)
    if function is not None and function.everywhere:
        return []
    return [Fix("buttons on all models: on", partial(webui.toggle, ACTION, "/global"))]


def _without_function(webui: OpenWebUI, functions: dict[str, Function], name: str) -> list[Fix]:
    """What takes a function away, if it is there and ours."""
    if name not in functions:
        return []
    _check_ours(functions[name])
    return [Fix(f"function {name}: deleted", partial(webui.delete, name))]


def _of_tool(webui: OpenWebUI, installed: Installed, wish: Wish) -> list[Fix]:
    """What the tool lacks, or that it is there against the wish."""
    if not wish.recall:
        return _without_tool(webui, installed.tool)
    if webui.tools_off:
        return []
    text = (files("filter_stub") / "precis_recall.py").read_text(encoding="utf-8")
    tool, changes = installed.tool, []
    if tool is None:
        create = partial(webui.create_tool, RECALL, *_DESCRIBED[RECALL], text)
        changes.append(Fix(f"tool {RECALL} {_release(text)}: created, for everybody", create))
    elif tool.source != text:
        change = f"tool {RECALL}: {_release(tool.source)} replaced by {_release(text)}"
        changes.append(Fix(change, partial(webui.update_tool, tool, text)))
    # Made manually it is its owner's alone; what an admin allowed some groups or users stays.
    if tool is not None and tool.private:
        shared = partial(webui.share_tool, tool)
        changes.append(Fix(f"tool {RECALL}: shared with everybody", shared))
    return changes


def _without_tool(webui: OpenWebUI, tool: Tool | None) -> list[Fix]:
    if tool is None:
        return []
    return [Fix(f"tool {RECALL}: deleted", partial(webui.delete, RECALL, "tools"))]


def _of_valves(webui: OpenWebUI, installed: Installed, name: str, valves: Json) -> list[Fix]:
    """The valves that are to be set; what was set by hand stays."""
    now = installed.valves.get(name, {})
    differ = [valve for valve, value in valves.items() if now.get(valve) != value]
    if not differ:
        return []
    # Open WebUI replaces all valves by what it is sent, so an admin's own go along.
    set_valves = partial(webui.set_valves, name, now | valves)
    return [Fix(f"valves of {name}: {', '.join(differ)} set", set_valves)]


def _without(webui: OpenWebUI, model: str) -> Fix:
    async def make() -> None:
        has = await webui.filters_of(model)
        await webui.set_filters(model, model, [name for name in has if name != FILTER])

    return Fix(f"filter on model {model}: off", make)


async def _reach(webui: OpenWebUI, wish: Wish, url: str) -> Reached:
    """Asks the filter, in Open WebUI's own process, who answers it."""
    models = await webui.models()  # also makes Open WebUI notice which filters they have now
    # The filters of one model are tried; the model itself is asked nothing.
    model = next(iter(wish.models or models), None)
    if model is None:
        return Reached(
            "Open WebUI has no model yet, so no filter can be tried; add one and run this again"
        )
    try:
        answer = (await webui.outlet(model, {"precis_check": True})).get("precis_check")
    except RequestRefused as refused:
        return Reached(
            f"Open WebUI stopped with {refused.detail!r} when the filters of {model!r} were tried"
        )
    if not isinstance(answer, dict):
        return Reached(f"it does not run on {model!r}; see the log of Open WebUI")
    if "tenant" not in answer:
        return Reached(_advice(str(answer.get("error") or "what answers there is not Precis"), url))
    return Reached(None, answer["version"], answer["tenant"], answer["crowded"], answer["assumed"])


def _advice(error: str, url: str) -> str:
    """What the filter met, and what to do."""
    if re.search(r"\b40[13]\b", error):
        return (
            f"the service at {url} does not know its key ({error}). Run this command with the"
            " settings of that service: the same PRECIS_DATABASE_URL, or the same PRECIS_DATA_DIR"
        )
    if re.search(r"\b426\b", error):
        return (
            f"the service at {url} is newer than this command ({error})."
            " Run the command of that version"
        )
    return (
        f"Open WebUI does not reach {url} ({error}). Is the service running there? An Open WebUI in"
        " a container has a localhost of its own: let Precis listen on more"
        " (PRECIS_HOST=0.0.0.0), and pass --service-url with the address that Open WebUI can reach,"
        " such as http://host.docker.internal:8377"
    )


def _release(text: str) -> str:
    """The version in a function's first lines."""
    match: Any = re.search(r"^version:\s*(\S+)", text, re.MULTILINE)
    return str(match[1]) if match else "of an unknown version"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
