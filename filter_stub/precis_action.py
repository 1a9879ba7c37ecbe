"""
title: Precis action
author: The Precis authors
description: Shows what stands for the earlier part of a chat, renews it, and leaves a chat alone.
version: 1.0.0
required_open_webui_version: 0.9.6
license: MIT
"""

# Buttons under a message. What they show stands in a dialog, and nothing of it in the chat: a copy
# there would be sent to models again, and would outlive what was deleted. The service decides what
# a dialog shows or asks, and writes its words.

import asyncio
import logging
from typing import Any
from urllib.parse import quote

import httpx

log = logging.getLogger("precis")

FILTER = "precis"  # the filter's id in Open WebUI; it reaches the service
TIMEOUT, WRITING = 5.0, 30.0  # seconds for the service to answer, and to write a summary before
OPEN = 240.0  # seconds for a user to answer a dialog; Open WebUI's own limit is longer, or none

STARTED = "Precis reads this chat. What became of it is shown in a moment."
UNKNOWN = "Precis does not know this chat: it is short, new, not saved or somebody else's."
UNWANTED = "You have set that Precis gets none of your chats."
AWAY = "Precis cannot be asked now."

Json = dict[str, Any]

# A button shows a picture of lines, which Open WebUI makes light on dark, and its words.
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
    """The object that Open WebUI calls, for all requests."""

    actions = BUTTONS  # Open WebUI puts them under each answer

    async def action(
        self,
        body: Json,
        __id__: str,
        __user__: Json,
        __model__: Json,
        __request__: Any,
        __event_call__: Any,
        __event_emitter__: Any,
    ) -> None:
        """Called for a click on one of the buttons."""
        # The page also calls all actions when an answer is regenerated or rated.
        if body.get("event"):
            return
        click = Click(body, __user__["id"], __event_call__, __event_emitter__)
        try:
            await click.find_filter(__request__)
            if __id__ == "now":
                await click.send_branch(__model__, __request__)
            await click.show(__id__)
        except RefusedError as error:
            await click.notify("warning", str(error))
        except Exception as error:
            # The error itself may quote the chat.
            log.warning("precis: a button did nothing: %s", type(error).__name__)
            await click.notify("error", AWAY)


class Click:
    """A click: the user who clicked, the user's page, and the message above the button."""

    def __init__(self, body: Json, user: str, call: Any, emit: Any) -> None:
        self.body, self.user, self._call, self._emit = body, user, call, emit
        self.chat, self.message = str(body.get("chat_id") or ""), str(body.get("id") or "")

    async def find_filter(self, request: Any) -> None:
        """Finds the filter, and sets its valves, as Open WebUI does for the filter's own hooks."""
        from open_webui.models.functions import Functions
        from open_webui.utils.plugin import get_function_module_from_cache

        self.filter = (await get_function_module_from_cache(request, FILTER))[0]
        valves = await Functions.get_function_valves_by_id(FILTER)
        self.filter.valves = self.filter.Valves(**(valves or {}))

    async def send_branch(self, model: Json, request: Any) -> None:
        """Sends the whole branch, which the service may never have seen, if its user allows it.

        What a model is to write of it is written in the background.
        """
        from open_webui.models.chats import Chats
        from open_webui.models.functions import Functions
        from open_webui.utils.misc import get_message_list

        # Below 0.12 anybody may click on any chat.
        if await Chats.get_chat_by_id_and_user_id(self.chat, self.user) is None:
            raise RefusedError(UNKNOWN)
        wanted = await Functions.get_user_valves_by_id_and_user_id(FILTER, self.user) or {}
        if not wanted.get("compress", True):
            raise RefusedError(UNWANTED)
        rows = await Chats.get_messages_map_by_chat_id(self.chat)
        metadata = {"chat_id": self.chat, "user_id": self.user}
        turn = self.filter.make_turn(self.body, metadata, model, None)
        branch = get_message_list(rows, self.message)
        await self.filter.send_turn(turn, branch, {"id": self.user}, request)
        await self.notify("info", STARTED)

    async def show(self, button: str) -> None:
        """Shows the service's answer to a button; what it asks to change, a user has to confirm."""
        wait = WRITING if button == "now" else 0
        question = {"button": button, "message_id": self.message, "wait": wait}
        view = await self.ask_service("view", question, TIMEOUT + wait)
        change = view["change"]
        answer = await self.ask_user(view["title"], view["text"])
        if change and answer is True:
            await self.ask_service("left-alone", {"left_alone": change["left_alone"]}, TIMEOUT)
            await self.notify("success", change["done"])
        elif change and answer is not False:
            # Only a cancelled dialog is False: the tab is gone, or its user was too late.
            await self.notify("warning", change["unanswered"])

    async def ask_service(self, route: str, question: Json, seconds: float) -> Any:
        """The service's answer about the chat, for this user."""
        path = f"chats/{quote(self.chat, safe='')}/{route}"
        try:
            return await self.filter.send("POST", path, question | {"user_id": self.user}, seconds)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 404:
                raise RefusedError(UNKNOWN) from None
            raise

    async def ask_user(self, title: str, text: str) -> object:
        """Opens a dialog: True for Confirm, False for Cancel, anything else is no answer."""
        dialog = {"type": "confirmation", "data": {"title": title, "message": text}}
        try:
            return await asyncio.wait_for(self._call(dialog), OPEN)
        except TimeoutError:
            return None

    async def notify(self, kind: str, text: str) -> None:
        """Shows a line for a few seconds."""
        await self._emit({"type": "notification", "data": {"type": kind, "content": text}})
