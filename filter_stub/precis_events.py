"""
title: Precis events
author: The Precis authors
description: Reports to Precis what was deleted or edited, so that summaries of it are deleted too.
version: 1.0.0
required_open_webui_version: 0.10.0
license: MIT
"""

# Open WebUI tells of everything that happens in it. What was deleted or edited goes on to the
# Precis service, which drops it and the summaries that have read it. Nobody waits for that, and no
# error leaves this file.

import asyncio
import contextlib
import hashlib
import json
import logging
from typing import Any

import httpx
from pydantic import BaseModel, Field
from sqlalchemy import select

log = logging.getLogger("precis")

VERSION = "1.0.0"
TIMEOUT = 5.0  # seconds of one try
PAUSES = (0, 2, 15, 60)  # seconds before each try: a deletion outlives a restart of the service
# Connections bypass the proxy of the environment, which would see the key.
DIRECT = {"all://": None, "http://": None, "https://": None}
Json = dict[str, Any]
HIDDEN: Json = {"input": {"type": "password"}}

# Events about texts: the service is told what the chat has now.
EDITS = {"chat.updated", "message.updated", "message.deleted"}
KINDS = EDITS | {"chat.deleted", "chat.deleted_all", "user.deleted", "folder.deleted"}


class Event:
    """The object that Open WebUI calls, for all events; it keeps nothing but tasks."""

    class Valves(BaseModel):
        """The settings that an admin makes in Open WebUI."""

        service_url: str = Field("http://127.0.0.1:8377", description="Address of Precis.")
        api_key: str = Field("", description="Key with scope `events`.", json_schema_extra=HIDDEN)

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._http: httpx.AsyncClient | None = None
        self._in_background: set[asyncio.Task[None]] = set()  # keeps the tasks alive

    async def event(self, event: Json) -> None:
        """Called for every event; Precis ignores most."""
        if event.get("event") in KINDS:
            task = asyncio.create_task(self._tell(event))
            self._in_background.add(task)
            task.add_done_callback(self._in_background.discard)

    async def _tell(self, event: Json) -> None:
        error: Exception | None = None
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                if payload := await make_payload(event):
                    await self._send(payload)
                return
            except Exception as caught:
                error = caught
        kind, which = event["event"], (event.get("subject") or {}).get("id")
        log.warning("precis: the service was not told of %s %s: %r", kind, which, error)

    async def _send(self, payload: Json) -> None:
        self._http = self._http or httpx.AsyncClient(mounts=DIRECT)
        # An error about a stray line end or a typographic quote would show the key in the log.
        key = "".join(character for character in self.valves.api_key if "!" <= character <= "~")
        headers = {"Authorization": f"Bearer {key}", "Precis-Filter": VERSION}
        url = f"{self.valves.service_url.rstrip('/')}/v1/events"
        async with asyncio.timeout(TIMEOUT):
            answer = await self._http.post(url, json=payload, headers=headers, timeout=None)
        answer.raise_for_status()


async def make_payload(event: Json) -> Json | None:
    """The ids and hashes that are sent for an event; None when no chat is concerned."""
    kind, subject, data = event["event"], event["subject"], event.get("data") or {}
    if "channel_id" in data or not data.get("delete_contents", True):
        return None
    if kind in EDITS:
        chat = data.get("chat_id", subject["id"])
        return {"type": "chat.updated", "chat_id": chat, "fingerprints": await fingerprints(chat)}
    payload = {"type": kind, f"{subject['type']}_id": subject["id"]}
    if kind == "folder.deleted":
        payload |= await chats_left(event["actor"]["id"])
    if kind == "chat.deleted":
        with contextlib.suppress(Exception):  # the chat itself goes all the same
            payload |= await chats_left(data["owner_id"])
    return payload


async def chats_left(user: str) -> Json:
    """All chats of a user. No list of Open WebUI's own has those of sub-agents and of notes."""
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.chats import Chat

    async with get_async_db_context() as session:
        chats = await session.scalars(select(Chat.id).where(Chat.user_id == user))
        return {"user_id": user, "left": list(chats)}


async def fingerprints(chat: str) -> dict[str, str]:
    """The fingerprint of each message of a chat by its id."""
    from open_webui.models.chats import Chats

    rows = await Chats.get_messages_map_by_chat_id(chat) or {}
    return await asyncio.to_thread(lambda: {name: fingerprint(row) for name, row in rows.items()})


def fingerprint(row: Json) -> str:
    """The fingerprint of a message, as the service makes it of what the filter sends."""
    seen = [row.get("role"), row.get("output") or row.get("content") or ""]
    packed = json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(packed.encode("utf-8", "replace")).hexdigest()[:32]
