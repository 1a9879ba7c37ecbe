"""Parses a stored message (one entry of `outlet`'s list, or one database row) into a `Message`.

Whatever Open WebUI has stored is accepted: missing fields, failed and empty answers, text in parts,
inline images.
"""

import re
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from service.transcript import details, output, parts
from service.transcript.items import Attachment, AttachmentKind, Item, Marker, Message, Stored, Text

# Invisible Markdown link definitions with which OpenRouter pipes tie a text to artifacts they keep
# elsewhere: a 20-character ULID, a phase, or `openrouter:v1:<kind>:<body>`.
_MARKER = re.compile(
    r"^[ \t]*+\[([0-9A-HJKMNP-TV-Z]{20}|P:[^\]\n]*+|openrouter:v\d++:[^\]\n]*+)\]: #[^\n]*+\n?",
    re.MULTILINE,
)
_LONGEST_ID = 200  # of a marker; what is longer leads to nothing
_LAST_SECOND = 10**11  # in the year 5138; read as milliseconds, in 1973


def parse(stored: Stored) -> Message:
    """The typed message. Never fails on what Open WebUI can store.

    Unknown parts become `Unknown` or nothing.
    """
    return Message(
        id=str(stored.get("id") or ""),
        role=str(stored.get("role") or ""),
        items=tuple(_unmarked(_items(stored))),
        timestamp=_seconds(stored.get("timestamp")),
    )


def _items(stored: Stored) -> list[Item]:
    is_answer = stored.get("role") == "assistant"
    raw = stored.get("output")
    if is_answer and isinstance(raw, list):
        items = output.items_of(raw)
        if items:  # `content` then says the same in an older format
            return items
    content = stored.get("content")
    return _items_of_content(content, is_answer=is_answer) + _attachments(stored.get("files"))


def _items_of_content(content: object, *, is_answer: bool) -> list[Item]:
    if isinstance(content, list):
        return [parts.item_of(part) for part in content if isinstance(part, dict)]
    if not isinstance(content, str):
        return []
    # A user who pastes a fold has called no tool.
    return details.items_of(content) if is_answer else [Text(content)]


def _attachments(files: object) -> list[Item]:
    if not isinstance(files, list):
        return []
    return [_attachment(file) for file in files if isinstance(file, dict)]


def _unmarked(items: list[Item]) -> Iterator[Item]:
    """The items, with the hidden lines of their texts as items of their own; no empty text."""
    for item in items:
        if isinstance(item, Text) and "]: #" in item.text:  # cheaper than the pattern
            yield from _of_marked(item.text)
        elif item != Text(""):
            yield item


def _of_marked(text: str) -> Iterator[Item]:
    """The text without its markers, and the markers."""
    unmarked = _MARKER.sub("", text)
    if unmarked:
        yield Text(unmarked)
    for line in _MARKER.finditer(text):
        yield Marker(line[1][:_LONGEST_ID])


def _attachment(file: dict[str, Any]) -> Attachment:
    content_type = str(file.get("content_type") or "")
    is_image = file.get("type") == "image" or content_type.startswith("image/")
    name = str(file.get("name") or file.get("id") or "")
    return Attachment(name, AttachmentKind.IMAGE if is_image else AttachmentKind.FILE)


def prompt_tokens_of(usage: object) -> int | None:
    """The tokens that a provider has counted for a request; None where it does not say."""
    if not isinstance(usage, Mapping):
        return None
    # The second name is Ollama's.
    counts = (_whole(usage.get(name)) for name in ("prompt_tokens", "prompt_eval_count"))
    return next((count for count in counts if count is not None), None)


def tokens_read_of(usage: object) -> int | None:
    """The tokens of a request that Ollama has read; None for any other server.

    It cuts a request that is too large without a word. Counts of others leave out what was cached.
    """
    return _whole(usage.get("prompt_eval_count")) if isinstance(usage, Mapping) else None


def _seconds(value: object) -> int | None:
    """Unix time in seconds; imported chats have it in milliseconds."""
    moment = _whole(value)
    while moment is not None and moment > _LAST_SECOND:
        moment //= 1000
    return moment


def _whole(value: object) -> int | None:
    """A number that is neither negative nor infinite, as a whole one."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value < inf else None
