"""Folded view to native view and back.

`unfold` follows Open WebUI 0.12.4 (utils/middleware.py: load_messages_from_db,
process_messages_with_output; utils/misc.py: convert_output_to_messages, reconcile_tool_pairs) for a
provider without a reasoning format.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from service.transcript.items import CodeRun, Item, Native, Stored, Text, ToolCall, ToolResult
from service.transcript.output import items_of

_IMAGES_NOTE = "Here are the images from the tool results above. Please analyze them."
_VOICE_NOTE = "[Historical voice assistant transcript; not current task status]\n"


def unfold(messages: list[Stored], *, attached_files: bool = True) -> list[Native]:
    """The native list that Open WebUI builds from stored messages, root to leaf.

    One answer becomes several native messages: `assistant` with `tool_calls`, its `tool` results,
    and so on. Empty answers are dropped, unfinished and orphan calls and results too. What Open
    WebUI adds from elsewhere is not here: the system message, images that it loads from its file
    store, reasoning in a provider's own field.

    Args:
        messages: stored messages, with or without `id`, `files`, `meta`.
        attached_files: name attached files in front of a user's text, as Open WebUI does with
            native tool calling.
    """
    return [native for message in messages for native in _unfold_one(message, attached_files)]


def folded(native: Sequence[object]) -> list[dict[str, Any]]:
    """The reverse for one answer: the output items as which Open WebUI would store these native messages.

    Clients of the API and temporary chats have no stored messages. What is no message of an answer
    is passed over.
    """
    items: list[dict[str, Any]] = []
    for message in map(_object, native):
        text = text_of(message)
        if message.get("role") == "tool":
            result = [{"type": "input_text", "text": text}]
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message.get("tool_call_id"),
                    "output": result,
                }
            )
        elif text:
            items.append(
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": text}],
                }
            )
        calls = message.get("tool_calls")
        for call in map(_object, calls if isinstance(calls, list) else ()):
            function = _object(call.get("function"))
            asked = {"name": function.get("name"), "arguments": function.get("arguments")}
            items.append({"type": "function_call", "call_id": call.get("id"), **asked})
    return [item if item["type"] == "message" else item | {"status": "completed"} for item in items]


def text_of(message: Native) -> str:
    """The text of a native message, its text parts joined; images are left out."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(
            str(p.get("text") or "")
            for p in content
            if isinstance(p, dict) and p.get("type") == "text"
        )
    return content if isinstance(content, str) else ""


def _unfold_one(stored: Stored, attached_files: bool) -> list[Native]:
    if stored.get("role") != "assistant":
        return [_user(stored, attached_files)]
    content, raw = stored.get("content"), stored.get("output")
    voice = _object(_object(stored.get("meta")).get("voice"))
    if voice and not raw and stored.get("model") == voice.get("model"):
        return [_spoken(content)] if content and isinstance(content, str) else []
    if isinstance(raw, list) and (native := _reconcile(_replay(items_of(raw)))):
        return native + _speech(voice)
    return [{"role": "assistant", "content": content}, *_speech(voice)] if content else []


def _user(stored: Stored, attached_files: bool) -> Native:
    content: Any = stored.get("content")
    skills = _object(_object(stored.get("meta")).get("skills_create"))
    if skills and skills.get("original_text") == content:
        content = skills.get("expanded_text", content)
    attached = stored.get("files")
    files = (
        [file for file in attached if isinstance(file, dict)] if isinstance(attached, list) else []
    )
    images = [
        file
        for file in files
        if file.get("type") == "image" or _is_picture(file.get("content_type"))
    ]
    if images and isinstance(content, str):
        content = [
            {"type": "text", "text": content},
            *map(_image, (f["url"] for f in images if f.get("url"))),
        ]
    if attached_files and stored.get("role") == "user" and (note := _files_note(files)):
        content = (
            [{"type": "text", "text": note}, *content]
            if isinstance(content, list)
            else note + (content or "")
        )
    return {"role": str(stored.get("role") or ""), "content": content}


def _files_note(files: list[dict[str, Any]]) -> str:
    """Names attached files for native tool calling (utils/middleware.py: add_file_context)."""
    lines = []
    for file in files:
        url = str(file.get("url") or "")
        if not (url and not url.startswith("data:")) and not (
            file.get("type") == "chat" and file.get("id")
        ):
            continue
        known = {
            "type": file.get("type", "file"),
            "id": file.get("id") or url,
            "url": url,
            "content_type": file.get("content_type"),
            "name": file.get("name"),
        }
        lines.append(
            "<file " + " ".join(f'{key}="{value}"' for key, value in known.items() if value) + "/>"
        )
    return "<attached_files>\n" + "\n".join(lines) + "\n</attached_files>\n\n" if lines else ""


def _is_picture(content_type: object) -> bool:
    return (
        isinstance(content_type, str)
        and content_type.startswith("image/")
        and "svg" not in content_type
    )


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _speech(voice: dict[str, Any]) -> list[Native]:
    """What the voice assistant said beside an answer (`meta.voice.speech`)."""
    speech = voice.get("speech")
    said = [_object(one).get("transcript") for one in speech] if isinstance(speech, list) else []
    return [_spoken(text) for text in said if isinstance(text, str) and text]


def _spoken(text: str) -> Native:
    return {"role": "assistant", "content": _VOICE_NOTE + text}


class _Replay:
    """Native messages under construction: text and calls wait until a result, or the end, sends them off."""

    def __init__(self) -> None:
        self.messages: list[Native] = []
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.results: list[ToolResult] = []

    def send_assistant(self) -> None:
        if self.texts or self.calls:
            message: Native = {"role": "assistant", "content": "\n".join(self.texts)}
            self.messages.append(message | {"tool_calls": self.calls} if self.calls else message)
            self.texts, self.calls = [], []

    def send_results(self) -> None:
        if not self.results:
            return
        self.send_assistant()
        self.messages += [
            {"role": "tool", "tool_call_id": r.call_id, "content": r.text} for r in self.results
        ]
        if images := [_image(url) for result in self.results for url in result.images]:
            self.messages.append(
                {"role": "user", "content": [{"type": "text", "text": _IMAGES_NOTE}, *images]}
            )
        self.results = []


def _replay(items: Sequence[Item]) -> list[Native]:
    answered = {item.call_id for item in items if isinstance(item, ToolResult) and item.call_id}
    paired = answered & {item.id for item in items if isinstance(item, ToolCall) and item.finished}
    replay = _Replay()
    for item in items:
        if not isinstance(item, ToolResult):
            replay.send_results()
        match item:
            case ToolResult() if item.call_id in paired:
                replay.results.append(item)
            case ToolCall() if item.id in paired:
                function = {"name": item.name, "arguments": item.arguments}
                replay.calls.append({"id": item.id, "type": "function", "function": function})
            case Text() if item.text:
                replay.texts.append(item.text)
            case CodeRun():
                replay.texts += _code(item)
            case _:
                pass
    replay.send_results()
    replay.send_assistant()
    return replay.messages


def _code(run: CodeRun) -> list[str]:
    blocks = (("code_interpreter", run.code), ("code_interpreter_output", run.output))
    return [f"<{tag}>\n{text}\n</{tag}>" for tag, text in blocks if text]


def _reconcile(messages: list[Native]) -> list[Native]:
    """Drops calls and results that do not stand in one block: a call's results directly follow it."""
    kept: list[Native] = []
    for block in _blocks(messages):
        head, results = block[0], block[1:]
        asked = {call["id"] for call in head.get("tool_calls", ())}
        answered = asked & {result["tool_call_id"] for result in results}
        if asked:
            calls = [call for call in head["tool_calls"] if call["id"] in answered]
            head = {key: value for key, value in head.items() if key != "tool_calls"}
            head |= {"tool_calls": calls} if calls else {}
        if head["role"] != "tool" and (answered or not asked or text_of(head).strip()):
            kept.append(head)
        kept += [result for result in results if result["tool_call_id"] in answered]
    return kept


def _blocks(messages: list[Native]) -> Iterator[list[Native]]:
    """Each message with the tool results that directly follow it."""
    block: list[Native] = []
    for message in messages:
        if block and message["role"] != "tool":
            yield block
            block = []
        block.append(message)
    if block:
        yield block
