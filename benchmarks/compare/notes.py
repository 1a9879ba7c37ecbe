"""title: Notes
description: Notes what the filter of Precis has left in the metadata of each request.
version: 1.0.0
"""

# Installed in Open WebUI behind Precis by the comparison, which asks in the name of such a request. In: the `path` of
# a file, as a valve; each call of a model appends a line to it. Changes nothing.

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel


class Filter:
    class Valves(BaseModel):
        path: str = ""
        priority: int = 1000

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def request(self, body: dict[str, Any], __metadata__: dict[str, Any] | None = None) -> dict[str, Any]:
        metadata = __metadata__ or body.get("metadata") or {}
        with Path(self.valves.path).open("a", encoding="utf-8") as file:  # noqa: ASYNC230 - some kilobytes
            noted = {"answer": metadata.get("message_id"), "turn": metadata.get("precis")}
            file.write(json.dumps(noted) + "\n")
        return body
