"""Builds what tests feed in: recorded hook calls of a real Open WebUI, and stored messages made by hand.

`capture(name)` is one recorded scenario (see `captures/README.md`). `user`, `answer` and the items `said`, `thought`,
`called`, `returned`, `ran` make stored messages of the same shape.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Json = dict[str, Any]

CAPTURES = Path(__file__).parent / "captures"


@dataclass(frozen=True)
class Hook:
    """One call of a hook: `name` tells its place (`007_outlet`), `hook` is `inlet`, `request` or `outlet`."""

    name: str
    hook: str
    metadata: Json
    body: Json

    @property
    def messages(self) -> list[Json]:
        messages: list[Json] = self.body["messages"]
        return messages

    @property
    def chat_id(self) -> str:
        return str(self.metadata.get("chat_id") or self.body.get("chat_id") or "")

    @property
    def saved(self) -> bool:
        """Whether Open WebUI keeps the chat in its database."""
        return bool(self.chat_id) and not self.chat_id.startswith(("temporary:", "local:"))

    @property
    def conversation(self) -> list[Json]:
        """The messages but for system messages, which are not part of the chat."""
        return [message for message in self.messages if message["role"] != "system"]


@dataclass(frozen=True)
class Capture:
    """A recorded scenario: the saved messages at its end by chat and id, and the hook calls in order."""

    name: str
    rows: Mapping[str, Mapping[str, Json]]
    hooks: Sequence[Hook]

    def of(self, kind: str) -> list[Hook]:
        return [hook for hook in self.hooks if hook.hook == kind]

    def hook(self, name: str) -> Hook:
        return next(hook for hook in self.hooks if hook.name == name)

    def path(self, chat_id: str, leaf: str | None) -> list[Json]:
        """The saved messages from the root to `leaf`; empty when the chat's rows were not recorded."""
        rows, path = self.rows.get(chat_id, {}), list[Json]()
        while leaf is not None and leaf in rows:
            path.append(rows[leaf])
            leaf = rows[leaf].get("parentId")
        return path[::-1]


def scenarios() -> list[str]:
    """Names of the recorded scenarios."""
    return sorted(path.stem for path in CAPTURES.glob("*.json"))


@cache
def capture(name: str) -> Capture:
    """A recorded scenario. It is shared between tests: copy before changing anything in it."""
    raw = json.loads((CAPTURES / f"{name}.json").read_text(encoding="utf-8"))
    return Capture(name, raw["rows"], [Hook(**hook) for hook in raw["hooks"]])


def user(text: object, identity: str = "u", **more: object) -> Json:
    return {"id": identity, "role": "user", "content": text, **more}


def answer(*output: Json, identity: str = "a", text: object = "", **more: object) -> Json:
    """An answer of `output` items, or of `text` alone."""
    return {
        "id": identity,
        "role": "assistant",
        "content": text,
        **({"output": list(output)} if output else {}),
        **more,
    }


def said(text: str) -> Json:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def thought(text: str) -> Json:
    return {"type": "reasoning", "status": "completed", "content": [{"type": "output_text", "text": text}]}


def called(identity: str, name: str = "query", arguments: object = "{}", status: str = "completed") -> Json:
    return {"type": "function_call", "call_id": identity, "name": name, "arguments": arguments, "status": status}


def returned(identity: str, text: str, *images: str) -> Json:
    parts = [{"type": "input_text", "text": text}, *({"type": "input_image", "image_url": url} for url in images)]
    return {"type": "function_call_output", "call_id": identity, "output": parts, "status": "completed"}


def ran(code: str, output: object) -> Json:
    return {"type": "open_webui:code_interpreter", "code": code, "output": output}
