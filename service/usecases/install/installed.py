"""What Precis has in an Open WebUI, and what is there: functions, tool, valves, an answer."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from service.clients.openwebui import Function, Json, OpenWebUI, RequestRefused, Tool
from service.errors import OpenWebUIError

FILTER, EVENTS, ACTION = "precis", "precis_events", "precis_action"
RECALL = "precis_recall"

DESCRIBED = {
    FILTER: ("Precis", "Keeps long chats inside the model's context window."),
    EVENTS: ("Precis events", "Tells Precis about deleted and edited chats."),
    ACTION: ("Precis action", "Shows users the summary of a chat, and renews it."),
    RECALL: ("Precis recall", "Looks up what a summary of Precis covers."),
}
FILES = {FILTER: "precis_filter.py", EVENTS: "precis_events.py", ACTION: "precis_action.py"}
_TYPES = {FILTER: "filter", EVENTS: "event", ACTION: "action"}
_OLDEST, _WITH_EVENTS = (0, 9, 6), (0, 10)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """How it should be: with the tool (`recall`) and the buttons (`action`), or without.

    `summariser` is `chat` for each chat's own model, `none`, or the id of another model.

    Other values that are None leave it as it is; at the first time it is `first_url`, the first
    tenant, and each chat's own model.
    """

    service_url: str | None
    tenant: str | None
    first_url: str
    summariser: str | None = None
    recall: bool = True
    action: bool = True


class Reached(NamedTuple):
    """What the filter says of the service that answers it; without a `problem`, all is well.

    `endpoint`, `summariser` and `models` are as in `api.wire.FilterAnswer`.
    """

    problem: str | None
    version: str = ""
    tenant: str = ""
    endpoint: str | None = None
    summariser: str | None = None
    models: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class Installed:
    """How it is."""

    functions: dict[str, Function]
    sources: dict[str, str]
    valves: dict[str, Json]
    tool: Tool | None
    reached: Reached


def wanted_of(webui: OpenWebUI, wish: Wish) -> dict[str, str]:
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
        name: (folder / FILES[name]).read_text(encoding="utf-8") for name in FILES if name in names
    }


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


async def our_tool(webui: OpenWebUI) -> Tool | None:
    """The tool, if it is there.

    Raises:
        OpenWebUIError: there is another one of its id.
    """
    tool = await webui.tool(RECALL)
    if tool is not None and tool.title != DESCRIBED[RECALL][0]:
        raise OpenWebUIError(
            f"the tool {RECALL!r} in Open WebUI is not of Precis: its title is {tool.title!r};"
            " delete it, or give it another id"
        )
    return tool


async def look(webui: OpenWebUI, wanted: dict[str, str]) -> Installed:
    """How it is; raises OpenWebUIError when something is in the way."""
    functions = await webui.functions()
    _check_functions(functions)
    tool = await our_tool(webui)
    present = [name for name in wanted if name in functions]
    sources = {name: await webui.source(name) for name in present}
    valves = {name: await webui.valves(name) for name in present}
    reached = Reached("it is not installed")
    if FILTER in present:
        reached = await reach(webui, str(valves[FILTER].get("service_url")))
    return Installed(functions, sources, valves, tool, reached)


def _check_functions(functions: dict[str, Function]) -> None:
    """Whether the ids are free or ours, and no other function is the filter too."""
    for name in FILES:
        if name in functions:
            check_ours(functions[name])
    for other in functions.values():
        is_filter = other.active and other.title == DESCRIBED[FILTER][0]
        if is_filter and other.id not in FILES:
            raise OpenWebUIError(
                f"the function {other.id!r} in Open WebUI is a second copy of the filter:"
                " delete it, or both would run"
            )


def check_ours(function: Function) -> None:
    """Raises OpenWebUIError when a function is somebody else's."""
    if function.type != _TYPES[function.id] or not function.title.startswith("Precis"):
        raise OpenWebUIError(
            f"the function {function.id!r} in Open WebUI is not of Precis: its title is"
            f" {function.title!r}; delete it in Open WebUI, or give it another id"
        )


async def reach(webui: OpenWebUI, url: str) -> Reached:
    """Asks the filter, in Open WebUI's own process, who answers it."""
    # Also makes Open WebUI notice which filters its models have now. The filters of one are tried;
    # the model itself is asked nothing.
    models = await webui.models()
    if not models:
        return Reached(
            "Open WebUI has no model yet, so no filter can be tried; add one and run this again"
        )
    model = models[0]["id"]
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
    return Reached(None, **answer)


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
