"""
title: Precis action
author: The Precis authors
description: Shows what stands for the earlier part of a chat, renews it, and leaves a chat alone.
version: 1.0.0
required_open_webui_version: 0.9.6
license: MIT
"""

# Buttons under a message. What they show stands in a dialog, and nothing of it in the chat: a copy
# there would be sent to models again, and would outlive what was deleted. No text of a chat becomes
# markup of the page: each of its characters that could is sent as a number.

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, Field

log = logging.getLogger("precis")

FILTER = "precis"  # the filter's id in Open WebUI; it reaches the service
PAIRS = 200  # newest messages of a branch that are described
TIMEOUT = 5.0  # seconds that the service may take to answer
LOOKS, PAUSE = 30, 1.0  # at a summary that is being written, and seconds between them
CELLS = 20  # of the bar
SCROLLS = (
    '<div tabindex="0" style="margin-top:1em;max-height:50vh;overflow:auto;white-space:pre-wrap">'
    "{}</div>"
)

# What a user reads.
TITLE = "What stands for the earlier part of this chat"
FILLED = "{bar} {share:.0%} of the model's window: about {used:,} of {window:,} tokens are sent."
READY = (
    "This summary stands for the first {covered} of {all} messages{until}:"
    " about {before:,} → {after:,} tokens."
)
NOTHING = {
    "not_needed": "Nothing: this chat still fits, so the model is sent all of it.",
    "pending": "Nothing yet: this chat needs a summary, and none is ready.",
    "unknown": "Nothing yet: Precis does not know this branch; it will after its next turn.",
}
STARTED = "Precis reads this chat. What became of it is shown in a moment."
WORKING = "A newer one is being written."
LEFT_ALONE = "Nothing: this chat is left alone, as you wanted. The model is sent it as it is."
LEAVE = (
    "Leave this chat alone?",
    "Its oldest messages are left out when it no longer fits. Undo: here.",
)
RESUME = "Summarise this chat again?", "Summaries will stand for its earlier part again."
LEFT = "This chat is left alone from now on."
RESUMED = "This chat is summarised again."
UNKNOWN = "Precis does not know this chat: it is short, new, not saved or somebody else's."
UNWANTED = "You have set that Precis gets none of your chats."
AWAY = "Precis cannot be asked now."

Json = dict[str, Any]
Send = Callable[[Json], Awaitable[Any]]

# What a button shows: a picture of lines, which Open WebUI makes light on dark; and its words.
ICON = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none'"
    " stroke='black' stroke-width='2' stroke-linecap='round'><path d='{}'/></svg>"
)
LINES, ARROW = "M5 4h14M5 9h14M5 14h9M5 19h6", "M5 4h14M12 8v7M9 12l3 3l3-3M5 20h14"
PAUSED = "M12 4a8 8 0 1 0 0 16a8 8 0 1 0 0-16M10 9v6M14 9v6"
BUTTONS = [
    {"id": "summary", "name": "Precis: the summary", "icon_url": ICON.format(LINES)},
    {"id": "now", "name": "Precis: summarise now", "icon_url": ICON.format(ARROW)},
    {"id": "leave", "name": "Precis: leave alone, or resume", "icon_url": ICON.format(PAUSED)},
]


class RefusedError(Exception):
    """Why there is nothing to show or to change, in words for the user."""


class Action:
    """What Open WebUI calls: one object for all requests."""

    class Valves(BaseModel):
        """What an admin sets in Open WebUI."""

        priority: int = Field(0, description="Buttons stand in rising order.")

    actions = BUTTONS  # of which Open WebUI makes buttons

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def action(
        self,
        body: Json,
        __id__: str,
        __user__: Json,
        __model__: Json,
        __request__: Any,  # noqa: ANN401 - Open WebUI's own
        __event_call__: Send,
        __event_emitter__: Send,
    ) -> None:
        """Called for a click on one of the buttons."""
        # The page also calls all actions when an answer is regenerated or rated.
        if body.get("event"):
            return
        click = Click(body, __user__, __event_call__, __event_emitter__)
        try:
            await click.load(__request__)
            if __id__ == "now":
                await click.summarise(__model__)
            await (click.leave() if __id__ == "leave" else click.show())
        except RefusedError as error:
            await click.tell("warning", str(error))
        except Exception as error:
            # The error itself may quote the chat.
            log.warning("precis: a button did nothing: %s", type(error).__name__)
            await click.tell("error", AWAY)


class Click:
    """A click: the branch of the clicked message, and the page of the user who clicked."""

    def __init__(self, body: Json, user: Json, call: Send, emit: Send) -> None:
        self.body, self.user, self.call, self.emit = body, user["id"], call, emit
        self.chat = str(body.get("chat_id") or "")

    async def load(self, request: Any) -> None:  # noqa: ANN401
        """Finds the filter with its valves, and the newest branch with the message, root first."""
        from open_webui.models.functions import Functions
        from open_webui.utils.plugin import get_function_module_from_cache

        self.filter = (await get_function_module_from_cache(request, FILTER))[0]
        # Open WebUI sets them only for the filter's own hooks.
        valves = await Functions.get_function_valves_by_id(FILTER)
        self.filter.valves = self.filter.Valves(**(valves or {}))
        self.path = await self.filter.branch_of(self.chat, str(self.body.get("id") or ""))
        if not self.path:
            raise RefusedError(UNKNOWN)

    async def tell(self, kind: str, text: str) -> None:
        """Says something in a corner of the page, for a moment."""
        await self.emit({"type": "notification", "data": {"type": kind, "content": text}})

    async def ask(self, route: str, question: Json) -> Json:
        """What the service answers."""
        path = f"chats/{quote(self.chat, safe='')}/{route}"
        told = question | {"user_id": self.user}
        response = await self.filter.send("POST", path, told, TIMEOUT)
        if response.status_code == 404:
            raise RefusedError(UNKNOWN)
        response.raise_for_status()
        answer: Json = response.json()
        return answer

    async def look(self) -> Json:
        """What stands for the earlier part of the branch, and whether the chat is left alone."""
        pairs = [(node.id, node.digest) for node in self.path[::-1][:PAIRS]]
        return await self.ask("view", {"path": pairs, "depth": len(self.path)})

    async def confirmed(self, title: str, message: str) -> bool:
        """Whether a user says yes to a dialog, in the minutes that Open WebUI waits."""
        data = {"title": title, "message": message}
        return await self.call({"type": "confirmation", "data": data}) is True

    async def show(self) -> None:
        """Shows the summary and what it stands for; whether that is confirmed makes no odds."""
        await self.confirmed(TITLE, shown(await self.look(), self.path))

    async def summarise(self, model: Json) -> None:
        """Has the branch summarised, and waits for what becomes of it."""
        await self.hand_over(model)
        if not (await self.look())["left_alone"]:
            await self.ask("left-alone", {"left_alone": False})  # its work is due at once
            await self.tell("info", STARTED)
            for _ in range(LOOKS):
                if not (await self.look())["working"]:
                    break
                await asyncio.sleep(PAUSE)

    async def hand_over(self, model: Json) -> None:
        """Sends the whole branch, which the service may never have seen, if its user allows it."""
        from open_webui.models.chats import Chats
        from open_webui.models.functions import Functions

        # Below 0.12 anybody may click on any chat.
        if await Chats.get_chat_by_id_and_user_id(self.chat, self.user) is None:
            raise RefusedError(UNKNOWN)
        wanted = await Functions.get_user_valves_by_id_and_user_id(FILTER, self.user) or {}
        if not wanted.get("compress", True):
            raise RefusedError(UNWANTED)
        metadata = {"chat_id": self.chat, "user_id": self.user}
        stash = dict(vars(self.filter._request(self.body, metadata, model, None)))
        stash["pairs"] = [(self.path[-1].id, self.path[-1].digest)]
        with contextlib.suppress(RefusedError):  # of a chat that it does not know
            stash["windows"] += [(await self.look())["window"]]  # as a request has told it
        await self.filter.ingest_again(stash)

    async def leave(self) -> None:
        """Leaves the chat alone, or summarises it again."""
        alone = bool((await self.look())["left_alone"])
        if await self.confirmed(*(RESUME if alone else LEAVE)):
            await self.ask("left-alone", {"left_alone": not alone})
            await self.tell("success", RESUMED if alone else LEFT)


def shown(view: Json, path: list[Any]) -> str:
    """The dialog's text in Markdown."""
    parts = [what_stands(view, path)]
    used = view["after" if view["status"] == "ready" else "before"]
    if used:
        share = used / view["window"]
        filled = min(round(share * CELLS), CELLS)
        bar = "█" * filled + "░" * (CELLS - filled)
        parts.insert(0, FILLED.format(bar=bar, share=share, used=used, window=view["window"]))
    if view["working"]:
        parts.append(WORKING)
    summary = view["summary"].strip()
    if summary:
        parts.append(SCROLLS.format(harmless(summary)))  # the dialog itself would not scroll
    return "\n\n".join(parts)


def what_stands(view: Json, path: list[Any]) -> str:
    """One sentence about the summary, or why there is none."""
    if view["left_alone"]:
        return LEFT_ALONE
    if view["status"] != "ready":
        return NOTHING[view["status"]]
    covered, until = view["covered_messages"], ""
    if path[covered - 1].id == view["covered_until"]:
        words = str(path[covered - 1].message.get("content") or "").split()
        until = f", up to “{harmless(' '.join(words)[:80])}…”"
    sizes = {"before": view["before"], "after": view["after"]}
    return READY.format(covered=covered, all=len(path), until=until, **sizes)


def harmless(text: str) -> str:
    """A text of which nothing is markup, in Markdown or HTML, and nothing becomes a link."""
    seen = (character for character in text if character.isprintable() or character == "\n")
    return "".join(one if one.isalnum() or one == " " else f"&#{ord(one)};" for one in seen)
