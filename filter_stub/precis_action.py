"""
title: Precis action
author: The Precis authors
description: Shows what stands for the earlier part of a chat, and leaves a chat alone.
version: 1.0.0
required_open_webui_version: 0.9.6
license: MIT
"""

# Buttons under a message. What they show stands in a dialog, and nothing of it in the chat: a copy
# there would be sent to models again, and would outlive what was deleted. No text of a chat becomes
# markup of the page: each of its characters that could is sent as a number.

import base64
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, Field

log = logging.getLogger("precis")

FILTER = "precis"  # the filter's id in Open WebUI; it reaches the service
PAIRS = 200  # newest messages of a branch that are described
LONGEST = 60_000  # characters of a summary that are shown
BEGINNING = 80  # characters of a message that is named
UNSAVED = ("temporary:", "local:", "channel:")
SCROLLS = (
    '<div tabindex="0" style="margin-top:1em;max-height:50vh;overflow:auto;white-space:pre-wrap">'
    "{}</div>"
)

# What a user reads.
TITLE = "What stands for the earlier part of this chat"
READY = (
    "In what the model is sent, this summary stands for the first {messages} messages{until}:"
    " about {before:,} → {after:,} tokens."
)
NOTHING = {
    "not_needed": "Nothing: this chat still fits, so the model is sent all of it.",
    "pending": "Nothing yet: this chat needs a summary, and none is ready.",
    "unknown": "Nothing yet: Precis does not know this branch; it will after its next turn.",
}
WORKING = "A newer one is being written."
LEFT_ALONE = "Nothing: this chat is left alone, as you wanted. The model is sent it as it is."
LEAVE = "Leave this chat alone?"
LEAVING = (
    "The model is then sent the chat as it is. When it no longer fits into the model's window, its"
    " oldest messages are left out. What is stored stays. The same button undoes it."
)
RESUME = "Summarise this chat again?"
RESUMING = "It is left alone now. Summaries will stand for its earlier part again."
LEFT = "This chat is left alone from now on."
RESUMED = "This chat is summarised again."
UNKNOWN = "Precis does not know this chat: it is short, new or somebody else's."
NOT_SAVED = "Precis has no summaries of chats that are not saved."
LATE = "Nothing was changed: the dialog was open for too long. Click again."
AWAY = "Precis cannot be asked now."
REFUSED = "Precis refuses it: {}."

Json = dict[str, Any]
HttpRequest = Any  # Open WebUI's own
Send = Callable[[Json], Awaitable[Any]]
Told = tuple[str, str]  # the kind of a notification, and its text


def icon(paths: str) -> str:
    """A small picture of lines, as the address of itself. Open WebUI makes it light on dark."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#000"'
    drawn = f'{head} stroke-width="2" stroke-linecap="round">{paths}</svg>'
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.encode()).decode()


LINES = icon('<path d="M5 4h14M5 9h14M5 14h9M5 19h6"/>')
PAUSE = icon('<circle cx="12" cy="12" r="8"/><path d="M10 9v6M14 9v6"/>')


class RefusedError(Exception):
    """Why there is nothing to show or to change, in words for the user."""


class Action:
    """What Open WebUI calls: one object for all requests."""

    class Valves(BaseModel):
        """What an admin sets in Open WebUI."""

        timeout: float = Field(5.0, gt=0, description="Seconds that Precis may take to answer.")
        priority: int = Field(0, description="Buttons stand in rising order.")

    actions = [  # noqa: RUF012 - read by Open WebUI, which makes a button of each
        {"id": "summary", "name": "Precis: the summary", "icon_url": LINES},
        {"id": "leave", "name": "Precis: leave this chat alone", "icon_url": PAUSE},
    ]

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def action(
        self,
        body: Json,
        __id__: str = "summary",
        __user__: Json | None = None,
        __request__: HttpRequest = None,
        __event_call__: Send | None = None,
        __event_emitter__: Send | None = None,
    ) -> None:
        """Called for a click on one of the buttons."""
        # The page also calls all actions when an answer is regenerated or rated.
        if body.get("event") or __event_call__ is None:
            return
        try:
            chat = Chat(self, body, str((__user__ or {}).get("id") or ""), __request__)
            told = await DONE[__id__](chat, __event_call__)
        except RefusedError as error:
            told = ("warning", str(error))
        except Exception as error:
            # The error itself may quote the chat.
            log.warning("precis: a button did nothing: %s", type(error).__name__)
            told = ("error", AWAY)
        if told and __event_emitter__:
            kind, text = told
            await __event_emitter__(
                {"type": "notification", "data": {"type": kind, "content": text}}
            )


class Chat:
    """The chat of a click, for the user who clicked."""

    def __init__(self, action: Action, body: Json, user: str, request: HttpRequest) -> None:
        self.action, self.user, self.request = action, user, request
        self.id, self.message = str(body.get("chat_id") or ""), str(body.get("id") or "")
        if not self.id or self.id.startswith(UNSAVED):
            raise RefusedError(NOT_SAVED)

    async def loaded_filter(self) -> Any:  # noqa: ANN401 - of no known class
        """The filter with its valves, which Open WebUI sets only for the filter's own hooks."""
        from open_webui.models.functions import Functions
        from open_webui.utils.plugin import get_function_module_from_cache

        loaded = (await get_function_module_from_cache(self.request, FILTER))[0]
        valves = await Functions.get_function_valves_by_id(FILTER)
        loaded.valves = loaded.Valves(**(valves or {}))
        return loaded

    async def branch(self) -> list[Any]:
        """The newest branch with the clicked message, from its root on, as the filter has it."""
        path: list[Any] = await (await self.loaded_filter()).branch_of(self.id, self.message)
        if not path:
            raise RefusedError(UNKNOWN)
        return path

    async def ask(self, route: str, question: Json) -> Json:
        """What the service answers.

        Raises:
            RefusedError: it refuses the question, and says why.
        """
        path = f"chats/{quote(self.id, safe='')}/{route}"
        told = question | {"user_id": self.user or self.id}
        loaded = await self.loaded_filter()
        response = await loaded.send("POST", path, told, self.action.valves.timeout)
        if response.status_code == 404:
            raise RefusedError(UNKNOWN)
        answer: Json = response.json()
        if response.is_error:
            raise RefusedError(REFUSED.format(str(answer["detail"])[:300].rstrip(".")))
        return answer

    async def look(self, path: list[Any]) -> Json:
        """What stands for the earlier part of a branch, and whether the chat is left alone."""
        pairs = [(node.id, node.digest) for node in path[::-1][:PAIRS]]
        return await self.ask("view", {"path": pairs, "depth": len(path)})


async def show(chat: Chat, call: Send) -> Told | None:
    """Shows the summary and what it stands for."""
    path = await chat.branch()
    view = await chat.look(path)
    with contextlib.suppress(RefusedError):  # who reads for long need not confirm it
        await confirmed(call, TITLE, shown(view, path))
    return None


async def leave(chat: Chat, call: Send) -> Told | None:
    """Leaves the chat alone, or summarises it again."""
    alone = bool((await chat.look(await chat.branch()))["left_alone"])
    title, message = (RESUME, RESUMING) if alone else (LEAVE, LEAVING)
    if not await confirmed(call, title, message):
        return None
    await chat.ask("left-alone", {"left_alone": not alone})
    return "success", RESUMED if alone else LEFT


DONE = {"summary": show, "leave": leave}


async def confirmed(call: Send, title: str, message: str) -> bool:
    """Whether a user confirms a dialog.

    Raises:
        RefusedError: they did not answer within the minutes that Open WebUI waits.
    """
    data = {"title": title, "message": message}
    said = await call({"type": "confirmation", "data": data})
    if isinstance(said, dict):  # an error
        raise RefusedError(LATE)
    return bool(said)


def shown(view: Json, path: list[Any]) -> str:
    """The dialog's text in Markdown."""
    parts = [what_stands(view, path)]
    if view["working"]:
        parts.append(WORKING)
    summary = view["summary"][:LONGEST].strip()
    if summary:
        parts.append(SCROLLS.format(harmless(summary)))  # the dialog itself would not scroll
    return "\n\n".join(parts)


def what_stands(view: Json, path: list[Any]) -> str:
    """One sentence about the summary, or why there is none."""
    if view["left_alone"]:
        return LEFT_ALONE
    if view["status"] != "ready":
        return NOTHING[view["status"]]
    named = [node for node in path if node.id == view["covered_until"]]
    words = " ".join(str(node.message.get("content") or "") for node in named)
    beginning = " ".join(words.split())[:BEGINNING]
    until = f", up to “{harmless(beginning)}…”" if beginning else ""
    return READY.format(
        messages=view["covered_messages"], until=until, before=view["before"], after=view["after"]
    )


def harmless(text: str) -> str:
    """A text of which nothing is markup, in Markdown or HTML, and nothing becomes a link."""
    seen = (character for character in text if character.isprintable() or character == "\n")
    return "".join(one if one.isalnum() or one == " " else f"&#{ord(one)};" for one in seen)
