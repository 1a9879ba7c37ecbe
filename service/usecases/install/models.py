"""The models of an Open WebUI as Precis has them, and who writes the summaries of their chats."""

from collections.abc import Sequence

from filter_stub.precis_filter import list_windows
from service.clients.openwebui import Json, OpenWebUI
from service.errors import OpenWebUIError
from service.planning import policy
from service.settings import Settings
from service.usecases.install.present import FilterCheck

_MOST_LISTED = 20


async def check_writer(webui: OpenWebUI, summariser: str | None) -> None:
    """Raises OpenWebUIError when Open WebUI does not have the model that shall write."""
    if summariser in (None, "chat", "none"):
        return
    names = [one["id"] for one in await webui.models()]
    if summariser not in names:
        raise OpenWebUIError(
            f"Open WebUI has no model {summariser!r} to write summaries; it has"
            f" {', '.join(names[:_MOST_LISTED]) or 'none'}. Or pass --summariser chat, or none"
        )


def describe_writer(check: FilterCheck) -> str:
    """A text for the admin: who writes summaries, what that costs, and how to change it."""
    if check.endpoint:
        return f"summaries are written by {check.endpoint}, as PRECIS_SUMMARISER says."
    if not check.summariser:
        return "summaries are written by code alone; --summariser chat lets each chat's model."
    is_own = check.summariser == "chat"
    writer = "each chat's own model" if is_own else f"model {check.summariser}"
    return (
        f"summaries are written by {writer}, which reads a long chat once or twice for that, in the"
        " background; --summariser none leaves them to code."
    )


def list_models(listed: Sequence[Json], check: FilterCheck, settings: Settings) -> list[Json]:
    """The `model`, `window` and `written_by` of the first models of Open WebUI's list."""
    rows = []
    for model in listed[:_MOST_LISTED]:
        name = model["id"]
        window, is_assumed = _describe_window(model, settings)
        shown = f"not known, {window:,} assumed" if is_assumed else f"{window:,}"
        writer = _describe_model_writer(model, window, check)
        rows.append({"model": name, "window": shown, "written_by": writer})
    return rows


def _describe_window(model: Json, settings: Settings) -> tuple[int, bool]:
    """The window in tokens, and whether it is only assumed."""
    params = (model.get("info") or {}).get("params") or {}
    listed = policy.find_plausible_window(list_windows({}, params, model))
    known = listed or settings.of_model(model["id"]).window
    return known or settings.window, known is None


def _describe_model_writer(model: Json, window: int, check: FilterCheck) -> str:
    if check.endpoint:
        return check.endpoint
    if check.summariser not in (None, "", "chat"):
        return str(check.summariser)
    is_able = window >= policy.LEAST_WRITER and model.get("owned_by") != "arena"
    return "itself" if check.summariser and is_able else "code"
