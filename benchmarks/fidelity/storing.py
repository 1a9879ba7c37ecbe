"""An answer with tool calls, as four generations of Open WebUI store it.

In: the parts of an answer in order. Out: the stored message. The shapes are those that `service.transcript` reads.
"""

import html
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from service.transcript import Stored


class Format(StrEnum):
    """Where a stored answer has its tool calls."""

    OUTPUT = "output items"
    ATTRIBUTE = "details, result as attribute"
    BODY = "details, result in the body"
    BARE = "bare JSON"


@dataclass(frozen=True, slots=True)
class Called:
    """A call with its result."""

    id: str
    tool: str
    arguments: dict[str, Any]
    result: str


Part = str | Called


def stored(identity: str, parts: list[Part], form: Format, timestamp: int) -> Stored:
    """The answer as it is stored."""
    message: Stored = {"id": identity, "role": "assistant", "timestamp": timestamp, "model": "generated"}
    if form is Format.OUTPUT:
        texts = [part for part in parts if isinstance(part, str)]
        return message | {"content": "\n".join(texts), "output": [item for part in parts for item in _items(part)]}
    return message | {"content": "\n\n".join(_folded(part, form) for part in parts)}


def _items(part: Part) -> list[dict[str, Any]]:
    if isinstance(part, str):
        return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": part}]}]
    call = {
        "type": "function_call",
        "call_id": part.id,
        "name": part.tool,
        "arguments": json.dumps(part.arguments),
        "status": "completed",
    }
    returned = [{"type": "input_text", "text": part.result}]
    return [call, {"type": "function_call_output", "call_id": part.id, "output": returned, "status": "completed"}]


def _folded(part: Part, form: Format) -> str:
    if isinstance(part, str):
        return part
    if form is Format.BARE:
        return html.escape(part.result)
    arguments, result = html.escape(json.dumps(json.dumps(part.arguments))), html.escape(json.dumps(part.result))
    head = f'<details type="tool_calls" done="true" id="{part.id}" name="{part.tool}" arguments="{arguments}"'
    if form is Format.ATTRIBUTE:
        return f'{head} result="{result}" files="">\n<summary>Tool Executed</summary>\n</details>'
    return f"{head}>\n<summary>Tool Executed</summary>\n{result}\n</details>"
