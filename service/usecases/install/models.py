"""The models of an Open WebUI as Precis has them, and who writes the summaries of their chats."""

from collections.abc import Sequence
from dataclasses import dataclass

from filter_stub.precis_filter import list_windows
from service.clients.openwebui import Json, OpenWebUI
from service.errors import OpenWebUIError
from service.planning.policy import LEAST_WRITER, believed
from service.settings import Settings
from service.usecases.install.installed import Reached, Wish

_CODE = "code"
_SHOWN = 20  # models


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model: its window, and what of it is for other things than the chat, in tokens.

    `tools` are system prompts too; None while no chat has shown them.
    """

    model: str
    window: str
    tools: int | None
    summary: int
    written_by: str


async def check_writer(webui: OpenWebUI, wish: Wish) -> None:
    """Raises OpenWebUIError when the model that is to write is none of Open WebUI's."""
    if wish.summariser in (None, "chat", "none"):
        return
    names = [one["id"] for one in await webui.models()]
    if wish.summariser not in names:
        raise OpenWebUIError(
            f"Open WebUI has no model {wish.summariser!r} to write summaries; it has"
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
    told = believed(list_windows({}, params, model)) or settings.of_model(name).window
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
