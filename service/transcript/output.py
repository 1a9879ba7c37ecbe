"""Parses the newest of the four stored formats: `output` items, in Open WebUI since 0.8.

The shape is that of 0.12.4. The input is the `output` list of a stored answer, the output are typed
items in the same order.
"""

import json
from collections.abc import Iterator
from typing import Any

from service.transcript.items import CodeRun, Item, Text, ToolCall, ToolResult, Unsent
from service.transcript.parts import read_text_field

_FINISHED = {"completed", "failed", "rejected"}


def parse_output(output: list[Any]) -> list[Item]:
    """The typed items. Values that are no objects are left out."""
    return [_parse_item(raw) for raw in output if isinstance(raw, dict)]


def _parse_item(raw: dict[str, Any]) -> Item:
    match raw.get("type"):
        case "message":
            return Text(_join_texts(raw.get("content"), "output_text"))
        case "function_call":
            return _parse_call(raw)
        case "function_call_output":
            parts = raw.get("output")
            text = _join_texts(parts, "input_text")
            return ToolResult(read_text_field(raw.get("call_id")), text, _list_images(parts))
        case "open_webui:code_interpreter":
            return CodeRun(read_text_field(raw.get("code")), _find_printed(raw.get("output")))
        case _:
            return Unsent()


def _parse_call(raw: dict[str, Any]) -> ToolCall:
    """The call as the model made it. With tool search, `provider_function` has it."""
    function = raw.get("provider_function")
    if not isinstance(function, dict):
        function = raw
    arguments = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    finished = read_text_field(raw.get("status")) in _FINISHED
    return ToolCall(
        read_text_field(raw.get("call_id")),
        read_text_field(function.get("name")),
        arguments,
        finished,
    )


def _find_printed(output: Any) -> str:  # noqa: ANN401 - stored JSON
    """The stdout of the code, or its value. Open WebUI does not replay the stderr."""
    if isinstance(output, dict):
        return read_text_field(output.get("stdout") or output.get("result"))
    return read_text_field(output)


def _join_texts(parts: Any, kind: str) -> str:  # noqa: ANN401 - stored JSON
    """The joined texts of the parts of one type."""
    if isinstance(parts, str):
        return parts
    return "".join(read_text_field(part.get("text")) for part in _select_type(parts, kind))


def _list_images(parts: Any) -> tuple[str, ...]:  # noqa: ANN401 - stored JSON
    urls = (part.get("image_url") for part in _select_type(parts, "input_image"))
    return tuple(url for url in urls if isinstance(url, str) and url)


def _select_type(parts: object, kind: str) -> Iterator[dict[str, Any]]:
    if not isinstance(parts, list):
        return
    for part in parts:
        if isinstance(part, dict) and part.get("type") == kind:
            yield part
