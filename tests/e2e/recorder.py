"""
title: Recorder
description: Tells the end-to-end tests what Open WebUI built, before any other filter sees it.
version: 1.0.0
"""

# Installed beside Precis by the end-to-end tests. In: the `url` of `tests/e2e/model.py`, as a valve. Changes nothing.

from typing import Any

import httpx
from pydantic import BaseModel

NAMED = ("chat_id", "message_id", "user_message_id", "parent_message_id", "session_id", "assistant_message_id")


class Filter:
    class Valves(BaseModel):
        url: str = ""
        priority: int = -1000

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def inlet(self, body: dict[str, Any], __metadata__: dict[str, Any] | None = None) -> dict[str, Any]:
        metadata = __metadata__ or body.get("metadata") or {}
        told = {"metadata": {name: metadata.get(name) for name in NAMED}, "messages": body["messages"]}
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.post(f"{self.valves.url}/built", json={**told, "model": body["model"]})
        return body
