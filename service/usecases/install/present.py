"""The functions and the tool of Precis in an Open WebUI, and whether the filter works there."""

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from service.clients.openwebui import Function, Json, OpenWebUI, RequestRefused, Tool
from service.errors import OpenWebUIError

FILTER, EVENTS, ACTION = "precis", "precis_events", "precis_action"
RECALL = "precis_recall"

_TYPES = {FILTER: "filter", EVENTS: "event", ACTION: "action"}
FUNCTIONS = tuple(_TYPES)
_FILES = {
    FILTER: "precis_filter.py",
    EVENTS: "precis_events.py",
    ACTION: "precis_action.py",
    RECALL: "precis_recall.py",
}
TITLES_AND_DESCRIPTIONS = {
    FILTER: ("Precis", "Keeps long chats inside the model's context window."),
    EVENTS: ("Precis events", "Tells Precis about deleted and edited chats."),
    ACTION: ("Precis action", "Shows users the summary of a chat, and renews it."),
    RECALL: ("Precis recall", "Looks up what a summary of Precis covers."),
}
_OLDEST, _WITH_EVENTS = (0, 9, 6), (0, 10)


class FilterCheck(NamedTuple):
    """A trial of the filter: the service that answers it, or the `problem` that it meets.

    `endpoint` and `summariser` are as in `api.wire.FilterAnswer`.
    """

    problem: str | None
    version: str = ""
    tenant: str = ""
    endpoint: str | None = None
    summariser: str | None = None


@dataclass(frozen=True, slots=True)
class Installation:
    """The functions of an Open WebUI, the tool of Precis, and the valves of its functions."""

    functions: dict[str, Function]
    tool: Tool | None
    valves: dict[str, Json]

    def valve(self, function: str, name: str) -> str:
        """The value of a valve; "" when nobody has set it."""
        return str(self.valves.get(function, {}).get(name) or "")


def read_source(name: str) -> str:
    """The text of a function or tool of this release."""
    return (files("filter_stub") / _FILES[name]).read_text(encoding="utf-8")


def list_supported_functions(version: tuple[int, ...]) -> tuple[str, ...]:
    """The functions that this version of Open WebUI can run.

    Raises:
        OpenWebUIError: the version is too old.
    """
    if version < _OLDEST:
        found, oldest = _format_version(version), _format_version(_OLDEST)
        raise OpenWebUIError(f"Open WebUI {found} is too old: Precis needs {oldest} or newer")
    return FUNCTIONS if version >= _WITH_EVENTS else (FILTER, ACTION)


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


async def find_installed(webui: OpenWebUI) -> Installation:
    """The parts of Precis in an Open WebUI.

    Raises:
        OpenWebUIError: a function or tool of somebody else has one of our ids.
    """
    functions = await webui.functions()
    ours = [functions[name] for name in FUNCTIONS if name in functions]
    for function in ours:
        if function.type != _TYPES[function.id] or not function.title.startswith("Precis"):
            raise _refuse_foreign("function", function.id, function.title)
    tool = await webui.tool(RECALL)
    if tool is not None and tool.title != TITLES_AND_DESCRIPTIONS[RECALL][0]:
        raise _refuse_foreign("tool", RECALL, tool.title)
    valves = {function.id: await webui.valves(function.id) for function in ours}
    return Installation(functions, tool, valves)


def _refuse_foreign(kind: str, name: str, title: str) -> OpenWebUIError:
    return OpenWebUIError(
        f"the {kind} {name!r} in Open WebUI does not belong to Precis: its title is {title!r};"
        " delete it in Open WebUI, or give it another id"
    )


def check_single(functions: dict[str, Function]) -> None:
    """Raises OpenWebUIError when the filter runs under another id too."""
    title, _ = TITLES_AND_DESCRIPTIONS[FILTER]
    for other in functions.values():
        if other.active and other.title == title and other.id not in FUNCTIONS:
            raise OpenWebUIError(
                f"the function {other.id!r} in Open WebUI is a second copy of the filter:"
                " delete it, or both would run"
            )


async def check_reach(webui: OpenWebUI, url: str) -> FilterCheck:
    """Lets the filter, in Open WebUI's own process, ask the service at its valve's `url`."""
    # The list also makes Open WebUI notice which filters its models have now. The filters of one
    # model are run; the model itself is asked nothing.
    models = await webui.models()
    if not models:
        return FilterCheck(
            "Open WebUI has no model yet, so no filter can be tried; add one and run this again"
        )
    model = models[0]["id"]
    try:
        answer = (await webui.outlet(model, {"precis_check": True})).get("precis_check")
    except RequestRefused as refused:
        return FilterCheck(
            f"Open WebUI stopped with {refused.detail!r} when the filters of {model!r} were tried"
        )
    if not isinstance(answer, dict):
        return FilterCheck(f"it does not run on {model!r}; see the log of Open WebUI")
    if "tenant" not in answer:
        error = str(answer.get("error") or "the program that answers there is not Precis")
        return FilterCheck(_explain(error, url))
    # A service of another version may tell more, or less.
    known: Json = {name: answer.get(name) for name in FilterCheck._fields[1:]}
    return FilterCheck(None, **known)


def _explain(error: str, url: str) -> str:
    """The error that the filter met, and what to do about it."""
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
