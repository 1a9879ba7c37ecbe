"""What is not as wished, in the order in which it is mended."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

from service.clients.openwebui import Function, Json, OpenWebUI, Tool
from service.usecases.install.installed import (
    ACTION,
    DESCRIBED,
    FILTER,
    RECALL,
    Installed,
    Wish,
    check_ours,
)


class Fix(NamedTuple):
    """One thing that is not as it should be, and what fixes it."""

    what: str
    make: Callable[[], Awaitable[object]]


def changes_of(
    webui: OpenWebUI,
    installed: Installed,
    wish: Wish,
    wanted: dict[str, str],
    valves: dict[str, Json],
) -> list[Fix]:
    """All that is to be done, in this order."""
    # The tool comes before the filter, which offers it to models.
    changes = _of_tool(webui, installed, wish)
    for name, text in wanted.items():
        changes += _of_function(webui, installed, name, text, valves.get(name, {}))
    if wish.action:
        changes += _everywhere(webui, installed, ACTION, "buttons")
    else:
        changes += without_function(webui, installed.functions, ACTION)
    return changes + _everywhere(webui, installed, FILTER, "filter")


def _of_function(
    webui: OpenWebUI, installed: Installed, name: str, text: str, valves: Json
) -> list[Fix]:
    """What one function lacks."""
    function = installed.functions.get(name)
    changes = []
    if function is None:
        make = partial(webui.create, name, *DESCRIBED[name], text)
        changes.append(Fix(f"function {name} {_release(text)}: created", make))
    elif (before := installed.sources[name]) != text:
        change = f"function {name}: {_release(before)} replaced by {_release(text)}"
        changes.append(Fix(change, partial(webui.update, function, text)))
    # The key comes before the switch, so that no request meets a filter without one.
    changes += _of_valves(webui, installed, name, valves)
    if function is None or not function.active:
        changes.append(Fix(f"function {name}: switched on", partial(webui.toggle, name)))
    return changes


def _everywhere(webui: OpenWebUI, installed: Installed, name: str, title: str) -> list[Fix]:
    """What switches a function on for all models."""
    function = installed.functions.get(name)
    if function is not None and function.everywhere:
        return []
    return [Fix(f"{title} on all models: on", partial(webui.toggle, name, "/global"))]


def without_function(webui: OpenWebUI, functions: dict[str, Function], name: str) -> list[Fix]:
    """What takes a function away, if it is there and ours."""
    if name not in functions:
        return []
    check_ours(functions[name])
    return [Fix(f"function {name}: deleted", partial(webui.delete, name))]


def _of_tool(webui: OpenWebUI, installed: Installed, wish: Wish) -> list[Fix]:
    """What the tool lacks, or that it is there against the wish."""
    if not wish.recall:
        return without_tool(webui, installed.tool)
    if webui.tools_off:
        return []
    text = (files("filter_stub") / "precis_recall.py").read_text(encoding="utf-8")
    tool, changes = installed.tool, []
    if tool is None:
        create = partial(webui.create_tool, RECALL, *DESCRIBED[RECALL], text)
        changes.append(Fix(f"tool {RECALL} {_release(text)}: created, for everybody", create))
    elif tool.source != text:
        change = f"tool {RECALL}: {_release(tool.source)} replaced by {_release(text)}"
        changes.append(Fix(change, partial(webui.update_tool, tool, text)))
    # Made manually it is its owner's alone; what an admin allowed some groups or users stays.
    if tool is not None and tool.private:
        shared = partial(webui.share_tool, tool)
        changes.append(Fix(f"tool {RECALL}: shared with everybody", shared))
    return changes


def without_tool(webui: OpenWebUI, tool: Tool | None) -> list[Fix]:
    """What takes the tool away, if it is there."""
    deleted = Fix(f"tool {RECALL}: deleted", partial(webui.delete, RECALL, "tools"))
    return [deleted] if tool else []


def _of_valves(webui: OpenWebUI, installed: Installed, name: str, valves: Json) -> list[Fix]:
    """The valves that are to be set; what was set by hand stays."""
    now = installed.valves.get(name, {})
    differ = [valve for valve, value in valves.items() if now.get(valve) != value]
    if not differ:
        return []
    # Open WebUI replaces all valves by what it is sent, so an admin's own go along.
    set_valves = partial(webui.set_valves, name, now | valves)
    return [Fix(f"valves of {name}: {', '.join(differ)} set", set_valves)]


def _release(text: str) -> str:
    """The version in a function's first lines."""
    match: Any = re.search(r"^version:\s*(\S+)", text, re.MULTILINE)
    return str(match[1]) if match else "of an unknown version"
