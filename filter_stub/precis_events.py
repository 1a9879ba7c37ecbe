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

# Past the proxy of the environment, which would see key and texts, but with its certificates.
DIRECT = {"all://": None, "http://": None, "https://": None}

Json = dict[str, Any]


class Event:
    """What Open WebUI calls: one object for all events, which keeps nothing but tasks."""

    class Valves(BaseModel):
        """What an admin sets in Open WebUI."""

        service_url: str = Field("http://127.0.0.1:8377", description="Address of Precis.")
        api_key: str = Field(
            "",
            description="Key with scope `events`.",
            json_schema_extra={"input": {"type": "password"}},
        )

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._http: httpx.AsyncClient | None = None
        self._telling: set[asyncio.Task[None]] = set()  # keeps the tasks alive

    async def event(self, event: Json) -> None:
        """Called for every event; Precis ignores most."""
        task = asyncio.create_task(self._tell(event))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, event: Json) -> None:
        error: object = None
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                told = await told_of(event)
                response = await self._send(told) if told else None
                if response is None or response.is_success:
                    return
                error = f"{response.status_code}: {response.text[:300]}"
                if response.status_code < 500:
                    break
            except Exception as caught:
                error = repr(caught)
        kind, which = event.get("event"), (event.get("subject") or {}).get("id")
        log.warning("precis: the service was not told of %s %s: %s", kind, which, error)

    async def _send(self, body: Json) -> httpx.Response:
        self._http = self._http or httpx.AsyncClient(mounts=DIRECT)
        # An error about a stray line end or a typographic quote would show the key in the log.
        key = "".join(character for character in self.valves.api_key if "!" <= character <= "~")
        headers = {"Authorization": f"Bearer {key}", "Precis-Filter": VERSION}
        url = f"{self.valves.service_url.rstrip('/')}/v1/events"
        async with asyncio.timeout(TIMEOUT):
            return await self._http.post(url, json=body, headers=headers, timeout=None)


async def told_of(event: Json) -> Json | None:
    """What is sent to the service of an event, without any text; None when it ignores the event."""
    kind, subject, data = event.get("event"), event.get("subject") or {}, event.get("data") or {}
    match kind:
        case "chat.updated":
            found = await fingerprints(subject["id"])
            return {"type": kind, "chat_id": subject["id"], "fingerprints": found}
        case "chat.deleted":
            told = {"type": kind, "chat_id": subject["id"], "user_id": data.get("owner_id")}
            with contextlib.suppress(Exception):  # the chat itself goes all the same
                told["left"] = await chats_of(told["user_id"])
            return told
        case "message.deleted" | "message.updated" if data.get("chat_id"):  # else a channel's
            return {"type": kind, "chat_id": data["chat_id"], "message_id": subject["id"]}
        case "chat.deleted_all" | "user.deleted":
            return {"type": kind, "user_id": subject["id"]}
        case "folder.deleted" if data.get("delete_contents"):
            user = event["actor"]["id"]
            return {"type": kind, "user_id": user, "left": await chats_of(user)}
    return None


async def chats_of(user: str) -> list[str]:
    """All chats of a user. No list of Open WebUI's own has those of sub-agents and of notes."""
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.chats import Chat

    async with get_async_db_context() as session:
        return list(await session.scalars(select(Chat.id).where(Chat.user_id == user)))


async def fingerprints(chat: str) -> dict[str, str]:
    """The fingerprint of each message of a chat by its id."""
    from open_webui.models.chats import Chats  # here, so that the file loads anywhere

    rows = await Chats.get_messages_map_by_chat_id(chat) or {}
    return await asyncio.to_thread(lambda: {name: fingerprint(row) for name, row in rows.items()})


def fingerprint(row: Json) -> str:
    """The fingerprint of a message, as the service makes it of what the filter sends."""
    seen = [row.get("role"), row.get("output") or row.get("content") or ""]
    packed = json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(packed.encode("utf-8", "replace")).hexdigest()[:32]
