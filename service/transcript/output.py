"""The newest of the four stored formats: `output` items, in Open WebUI since 0.8 (shape as of 0.12.4).

In: the `output` list of a stored answer. Out: typed items in the same order.
"""

import json
from typing import Any

from service.transcript.items import CodeRun, Item, Reasoning, Text, ToolCall, ToolResult, Unknown

_FINISHED = {"completed", "failed", "rejected"}


def items_of(output: list[Any]) -> list[Item]:
    """Typed items; what is not an object is left out."""
    return [_item(raw) for raw in output if isinstance(raw, dict)]


def _item(raw: dict[str, Any]) -> Item:
    match raw.get("type"):
        case "message":
            return Text(_joined(raw.get("content"), "output_text"))
        case "reasoning":
            return Reasoning(_joined(raw.get("summary") or raw.get("content"), "output_text"))
        case "function_call":
            return _call(raw)
        case "function_call_output":
            parts = raw.get("output")
            return ToolResult(
                _text(raw.get("call_id")), _joined(parts, "input_text"), _images(parts)
            )
        case "open_webui:code_interpreter":
            return CodeRun(_text(raw.get("code")), _printed(raw.get("output")))
        case other:
            return Unknown(_text(other))


def _call(raw: dict[str, Any]) -> ToolCall:
    """The call as the model made it: behind tool search, `provider_function` holds it, not the item itself."""
    function = raw.get("provider_function")
    if not isinstance(function, dict):
        function = raw
    arguments = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    finished = _text(raw.get("status")) in _FINISHED
    return ToolCall(_text(raw.get("call_id")), _text(function.get("name")), arguments, finished)


def _printed(output: Any) -> str:  # noqa: ANN401 - stored JSON
    """What the code printed, or else its value; an interpreter's stderr is not replayed by Open WebUI."""
    if isinstance(output, dict):
        return _text(output.get("stdout") or output.get("result"))
    return _text(output)


def _joined(parts: Any, kind: str) -> str:  # noqa: ANN401 - stored JSON
    if isinstance(parts, str):
        return parts
    if not isinstance(parts, list):
        return ""
    return "".join(
        _text(p.get("text")) for p in parts if isinstance(p, dict) and p.get("type") == kind
    )


def _images(parts: Any) -> tuple[str, ...]:  # noqa: ANN401 - stored JSON
    if not isinstance(parts, list):
        return ()
    urls = (
        p.get("image_url") for p in parts if isinstance(p, dict) and p.get("type") == "input_image"
    )
    return tuple(url for url in urls if isinstance(url, str) and url)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
