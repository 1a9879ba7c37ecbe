"""The models of an Open WebUI as Precis has them, and who writes the summaries of their chats."""

from collections.abc import Sequence
from dataclasses import dataclass

from filter_stub.precis_filter import windows_in
from service.clients.openwebui import Json, OpenWebUI
from service.errors import OpenWebUIError
from service.planning.policy import LEAST_WRITER, believed
from service.settings import Settings
from service.usecases.install.present import Reached

_CODE = "code"
_SHOWN = 20  # models


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model, with its window and the parts of it that are not for the chat, in tokens.

    `tools` includes system prompts; it is None while no chat has shown them.
    """

    model: str
    window: str
    tools: int | None
    summary: int
    written_by: str


async def check_writer(webui: OpenWebUI, summariser: str | None) -> None:
    """Raises OpenWebUIError when Open WebUI does not have the model that shall write."""
    if summariser in (None, "chat", "none"):
        return
    names = [one["id"] for one in await webui.models()]
    if summariser not in names:
        raise OpenWebUIError(
            f"Open WebUI has no model {summariser!r} to write summaries; it has"
            f" {', '.join(names[:_SHOWN]) or 'none'}. Or pass --summariser chat, or none"
        )


def describe_writer(reached: Reached) -> str:
    """Who writes summaries, what that costs, and how it is changed."""
    if reached.endpoint:
        return f"summaries are written by {reached.endpoint}, as PRECIS_SUMMARISER says."
    if not reached.summariser:
        return "summaries are written by code alone; --summariser chat lets each chat's model."
    whose = f"model {reached.summariser}"
    if reached.summariser == "chat":
        whose = "each chat's own model"
    return (
        f"summaries are written by {whose}, which reads a long chat once or twice for that, in the"
        " background; --summariser none leaves them to code."
    )


def list_rows(listed: Sequence[Json], reached: Reached, settings: Settings) -> list[ModelRow]:
    """The first models of Open WebUI's list."""
    used = {one["model"]: one for one in reached.models}
    return [_row_of(one, used.get(one["id"]), reached, settings) for one in listed[:_SHOWN]]


def _row_of(model: Json, used: Json | None, reached: Reached, settings: Settings) -> ModelRow:
    name = model["id"]
    params = (model.get("info") or {}).get("params") or {}
    told = believed(windows_in({}, params, model)) or settings.of_model(name).window
    window, is_assumed, tools = told or settings.window, told is None, None
    if used:
        window, is_assumed, tools = used["window"], used["assumed"], used["overhead"]
    shown = f"not known, {window:,} assumed" if is_assumed else f"{window:,}"
    summary = settings.policy(name, window, tools or 0).summary_tokens
    return ModelRow(name, shown, tools, summary, _writer_of(model, window, reached))


def _writer_of(model: Json, window: int, reached: Reached) -> str:
    if reached.endpoint:
        return reached.endpoint
    if not reached.summariser:
        return _CODE
    if reached.summariser != "chat":
        return reached.summariser
    is_too_small = window < LEAST_WRITER
    return _CODE if is_too_small or model.get("owned_by") == "arena" else "itself"
