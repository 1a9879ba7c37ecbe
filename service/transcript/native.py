"""Turns the folded view into the native view and back.

`unfold_messages` follows Open WebUI 0.12.4 (utils/middleware.py: load_messages_from_db,
process_messages_with_output; utils/misc.py: convert_output_to_messages, reconcile_tool_pairs) for a
provider without a reasoning format.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from service.transcript.items import CodeRun, Item, Native, Stored, Text, ToolCall, ToolResult
from service.transcript.output import parse_output

TOOL_IMAGES = "Here are the images from the tool results above."
"""The beginning of a message that Open WebUI writes in a user's place to show images of tools."""
# These are Open WebUI's words to the letter, because our list has to be the one that it builds.
_IMAGES_NOTE = f"{TOOL_IMAGES} Please analyze them."


def unfold_messages(messages: list[Stored]) -> list[Native]:
    """The native list that Open WebUI builds from stored messages, root to leaf.

    One answer becomes several native messages: `assistant` with `tool_calls`, its `tool` results,
    and so on. Empty answers, and calls and results that are unfinished or alone, are dropped. Parts
    that Open WebUI adds from elsewhere are not here: the system message, images of its file store,
    addresses of attached files, reasoning in a provider's own field, texts of skills, speech.
    """
    return list(chain.from_iterable(map(_unfold_message, messages)))


def fold_answer(native: Sequence[object]) -> list[dict[str, Any]]:
    """The output items that Open WebUI would store for one answer.

    Clients of the API and temporary chats have no stored messages. Other values are passed over.
    """
    items: list[dict[str, Any]] = []
    for message in map(_as_object, native):
        text = read_text(message)
        if message.get("role") == "tool":
            items.append(_make_result_item(message.get("tool_call_id"), text))
        elif text:
            items.append(_make_message_item(text))
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            items += map(_make_call_item, calls)
    return items


def _make_message_item(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def _make_result_item(call_id: object, text: str) -> dict[str, Any]:
    return {
        "type": "function_call_output",
        "call_id": call_id,
        "output": [{"type": "input_text", "text": text}],
        "status": "completed",
    }


def _make_call_item(value: object) -> dict[str, Any]:
    call = _as_object(value)
    function = _as_object(call.get("function"))
    return {
        "type": "function_call",
        "call_id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
        "status": "completed",
    }


def read_text(message: Native) -> str:
    """The text of a native message: its text parts, joined, without images."""
    content = message.get("content")
    if isinstance(content, list):
        texts = (part for part in _list_objects(content) if part.get("type") == "text")
        return "".join(str(part.get("text") or "") for part in texts)
    return content if isinstance(content, str) else ""


def list_calls(message: Native) -> Iterator[tuple[object, dict[str, Any]]]:
    """Yields the id of each call of a native message, and its function.

    The function has `name` and `arguments`.
    """
    for call in _list_objects(message.get("tool_calls")):
        yield call.get("id"), _as_object(call.get("function"))


def _unfold_message(stored: Stored) -> list[Native]:
    """The native messages of a stored message. An answer's `output` goes before its `content`."""
    if stored.get("role") != "assistant":
        return [_unfold_question(stored)]
    content, raw = stored.get("content"), stored.get("output")
    native = _drop_unpaired(_replay_items(parse_output(raw))) if isinstance(raw, list) else []
    if not native and content:
        return [{"role": "assistant", "content": content}]
    return native


def _unfold_question(stored: Stored) -> Native:
    """The native message of a user, or of any other role but the assistant."""
    content = stored.get("content")
    images = [file for file in _list_objects(stored.get("files")) if _is_image(file)]
    if images and isinstance(content, str):
        # An ingested file has no address, but Open WebUI sends one for each image.
        parts = [_make_image(str(file.get("url") or "")) for file in images]
        content = [{"type": "text", "text": content}, *parts]
    return {"role": str(stored.get("role") or ""), "content": content}


def _is_image(file: dict[str, Any]) -> bool:
    if file.get("type") == "image":
        return True
    content_type = file.get("content_type")
    # Open WebUI sends no SVG as an image.
    return (
        isinstance(content_type, str)
        and content_type.startswith("image/")
        and "svg" not in content_type
    )


def _make_image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _as_object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_objects(values: object) -> list[dict[str, Any]]:
    """The objects in a JSON list; none for any other value."""
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, dict)]


class _Replay:
    """Builds native messages. Text and calls wait for a result, or for the end."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.messages: list[Native] = []
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[ToolResult] = []
        self._paired = _find_pairs(items)

    def add(self, item: Item) -> None:
        # Results in a row follow one message with all of their calls.
        if not isinstance(item, ToolResult):
            self.send_results()
        match item:
            case ToolResult() if item.call_id in self._paired:
                self.results.append(item)
            case ToolCall() if item.id in self._paired:
                self.calls.append(_make_native_call(item))
            case Text() if item.text:
                self.texts.append(item.text)
            case CodeRun():
                self.texts += _render_code(item)
            case _:
                pass

    def send_assistant(self) -> None:
        if not self.texts and not self.calls:
            return
        message: Native = {"role": "assistant", "content": "\n".join(self.texts)}
        if self.calls:
            message["tool_calls"] = self.calls
        self.messages.append(message)
        self.texts, self.calls = [], []

    def send_results(self) -> None:
        if not self.results:
            return
        self.send_assistant()
        for result in self.results:
            message = {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
            self.messages.append(message)
        self._send_images()
        self.results = []

    def _send_images(self) -> None:
        """Sends the results' images as a user's message, because a tool message has none."""
        urls = chain.from_iterable(result.images for result in self.results)
        images = [_make_image(url) for url in urls]
        if images:
            content = [{"type": "text", "text": _IMAGES_NOTE}, *images]
            self.messages.append({"role": "user", "content": content})


def _replay_items(items: Sequence[Item]) -> list[Native]:
    replay = _Replay(items)
    for item in items:
        replay.add(item)
    replay.send_results()
    replay.send_assistant()
    return replay.messages


def _find_pairs(items: Sequence[Item]) -> set[str]:
    """The ids of the finished calls that have a result."""
    answered = {item.call_id for item in items if isinstance(item, ToolResult) and item.call_id}
    finished = {item.id for item in items if isinstance(item, ToolCall) and item.finished}
    return answered & finished


def _make_native_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _render_code(run: CodeRun) -> list[str]:
    blocks = (("code_interpreter", run.code), ("code_interpreter_output", run.output))
    return [f"<{tag}>\n{text}\n</{tag}>" for tag, text in blocks if text]


def _drop_unpaired(messages: list[Native]) -> list[Native]:
    """Keeps only calls that stand directly before their results, and those results."""
    return list(chain.from_iterable(map(_drop_unpaired_in_block, _split_blocks(messages))))


def _drop_unpaired_in_block(block: list[Native]) -> list[Native]:
    """The rest of a message and of the results that follow it."""
    head, results = block[0], block[1:]
    if head["role"] == "tool":  # The list begins with results without a call.
        return []
    called = {call["id"] for call in head.get("tool_calls", ())}
    if not called:
        return [head]
    answered = called & {result["tool_call_id"] for result in results}
    kept = _keep_calls(head, answered)
    if not answered and not read_text(kept).strip():
        return []
    return [kept, *(result for result in results if result["tool_call_id"] in answered)]


def _keep_calls(message: Native, answered: set[str]) -> Native:
    """The message with only its answered calls."""
    calls = [call for call in message["tool_calls"] if call["id"] in answered]
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    return kept | {"tool_calls": calls} if calls else kept


def _split_blocks(messages: list[Native]) -> Iterator[list[Native]]:
    """Yields each message with the tool results that directly follow it."""
    block: list[Native] = []
    for message in messages:
        if block and message["role"] != "tool":
            yield block
            block = []
        block.append(message)
    if block:
        yield block
