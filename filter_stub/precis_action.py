"""
title: Precis action
author: The Precis authors
description: Shows what stands for the earlier part of a chat, renews it, and leaves a chat alone.
version: 1.0.0
required_open_webui_version: 0.9.6
license: MIT
"""

# Buttons under a message. What they show stands in a dialog, and nothing of it in the chat: a copy
# there would be sent to models again, and would outlive what was deleted. The service writes it.

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx

log = logging.getLogger("precis")

FILTER = "precis"  # the filter's id in Open WebUI; it reaches the service
NOT_SAVED = ("temporary:", "local:", "channel:")
TIMEOUT = 5.0  # seconds that the service may take to answer
WRITING = 30.0  # and to write a summary
OPEN = 240.0  # seconds for a user to answer a dialog; Open WebUI's own limit is longer, or none

# What a user reads.
TITLE = "What stands for the earlier part of this chat"
RENEWED = "Precis has read this chat: what stands for its earlier part now"
CLOSES = "Both buttons only close this window."
LEAVE = (
    "Leave this chat alone?",
    "Precis will make and use no summary of this chat. When the chat no longer fits into the"
    " model's window, its oldest messages are left out.",
    "Precis leaves this chat alone. The same button has it summarised again.",
)
RESUME = (
    "Summarise this chat again?",
    "Precis leaves this chat alone now. From here on, it makes summaries of the chat again, and the"
    " model gets them in place of the earlier part.",
    "Precis summarises this chat again. The same button leaves it alone.",
)
UNANSWERED = "Nothing was changed: Precis got no answer to its question."
STARTED = "Precis reads this chat. What became of it is shown in a moment."
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

    actions = BUTTONS  # of which Open WebUI makes buttons

    async def action(
        self,
        body: Json,
        __id__: str,
        __user__: Json,
        __model__: Json,
        __request__: Any,
        __event_call__: Send,
        __event_emitter__: Send,
    ) -> None:
        """Called for a click on one of the buttons."""
        # The page also calls all actions when an answer is regenerated or rated.
        if body.get("event"):
            return
        click, page = Click(body, __user__["id"]), Page(__event_call__, __event_emitter__)
        try:
            await click.load(__request__)
            if __id__ == "leave":
                await leave_or_resume(click, page)
            elif __id__ == "now":
                await click.hand_over(__model__)
                await page.notify("info", STARTED)
                await page.show(RENEWED, (await click.look(WRITING))["text"])
            else:
                await page.show(TITLE, (await click.look())["text"])
        except RefusedError as error:
            await page.notify("warning", str(error))
        except Exception as error:
            # The error itself may quote the chat.
            log.warning("precis: a button did nothing: %s", type(error).__name__)
            await page.notify("error", AWAY)


async def leave_or_resume(click: "Click", page: "Page") -> None:
    """Leaves a chat alone or has it summarised again, once its user has confirmed that."""
    is_left_alone = (await click.look())["left_alone"]
    title, question, done = RESUME if is_left_alone else LEAVE
    answer = await page.ask(title, question)
    if answer is True:
        await click.ask("left-alone", {"left_alone": not is_left_alone})
        await page.notify("success", done)
    elif answer is not False:
        # Only a cancelled dialog is False: the tab is gone, or its user was too late.
        await page.notify("warning", UNANSWERED)


class Page:
    """The page of the user who clicked."""

    def __init__(self, call: Send, emit: Send) -> None:
        self._call, self._emit = call, emit

    async def notify(self, kind: str, text: str) -> None:
        """Shows a line for a few seconds."""
        data = {"type": kind, "content": text}
        await self._emit({"type": "notification", "data": data})

    async def show(self, title: str, text: str) -> None:
        """Shows a text. Open WebUI has no dialog without the buttons of a question."""
        await self.ask(title, f"{text}\n\n{CLOSES}")

    async def ask(self, title: str, question: str) -> object:
        """Asks in a dialog: True for Confirm, False for Cancel, anything else is no answer."""
        data = {"title": title, "message": question}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPEN):
                return await self._call({"type": "confirmation", "data": data})
        return None


class Click:
    """A click: the user who clicked, and the message under which the button is."""

    def __init__(self, body: Json, user: str) -> None:
        self.body, self.user = body, user
        self.chat, self.message = str(body.get("chat_id") or ""), str(body.get("id") or "")

    async def load(self, request: Any) -> None:
        """Finds the filter with its valves."""
        from open_webui.models.functions import Functions
        from open_webui.utils.plugin import get_function_module_from_cache

        self.filter = (await get_function_module_from_cache(request, FILTER))[0]
        # Open WebUI sets them only for the filter's own hooks.
        valves = await Functions.get_function_valves_by_id(FILTER)
        self.filter.valves = self.filter.Valves(**(valves or {}))
        if not self.chat or self.chat.startswith(NOT_SAVED):
            raise RefusedError(UNKNOWN)

    async def ask(self, route: str, question: Json, seconds: float = TIMEOUT) -> Any:
        """What the service answers."""
        path = f"chats/{quote(self.chat, safe='')}/{route}"
        try:
            return await self.filter.send("POST", path, question | {"user_id": self.user}, seconds)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 404:
                raise RefusedError(UNKNOWN) from None
            raise

    async def look(self, wait: float = 0) -> Any:
        """What stands for the earlier part of the branch; with `wait`, once what is due is done."""
        return await self.ask("view", {"message_id": self.message, "wait": wait}, TIMEOUT + wait)

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
        rows = await Chats.get_messages_map_by_chat_id(self.chat) or {}
        metadata = {"chat_id": self.chat, "user_id": self.user}
        turn = self.filter.turn_of(self.body, metadata, model, None)
        await self.filter.send_turn(turn, branch(rows, self.message), None)


def branch(rows: Json, leaf: str) -> list[Json]:
    """The messages of a chat from its root to a leaf; none when they run in a circle."""
    path: list[Json] = []
    while leaf in rows and len(path) <= len(rows):
        path.append({**rows[leaf], "id": leaf})
        leaf = str(rows[leaf].get("parentId"))
    return path[::-1] if len(path) <= len(rows) else []
