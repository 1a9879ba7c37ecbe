"""Parses a stored message (one entry of `outlet`'s list, or one database row) into a `Message`.

It accepts all that Open WebUI may have stored: missing fields, failed and empty answers, text in
parts, inline images.
"""

import re
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from service.transcript import details, output, parts
from service.transcript.items import Attachment, AttachmentKind, Item, Message, Stored, Text

# Invisible Markdown link definitions with which OpenRouter pipes tie a text to artifacts they keep
# elsewhere: a 20-character ULID, a phase, or `openrouter:v1:<kind>:<body>`.
_MARKER = re.compile(
    r"^[ \t]*+\[(?:[0-9A-HJKMNP-TV-Z]{20}|P:[^\]\n]*+|openrouter:v\d++:[^\]\n]*+)\]: #[^\n]*+\n?",
    re.MULTILINE,
)
_LAST_SECOND = 10**11  # in the year 5138; as milliseconds, it is in 1973


def parse(stored: Stored) -> Message:
    """The typed message. It never fails; unknown parts become `Unsent` or nothing."""
    return Message(
        id=str(stored.get("id") or ""),
        role=str(stored.get("role") or ""),
        items=tuple(_drop_markers(_parse_items(stored))),
        timestamp=_read_seconds(stored.get("timestamp")),
    )


def _parse_items(stored: Stored) -> list[Item]:
    is_answer = stored.get("role") == "assistant"
    raw = stored.get("output")
    if is_answer and isinstance(raw, list):
        items = output.parse_output(raw)
        if items:  # Then `content` says the same in an older format.
            return items
    content = stored.get("content")
    return _parse_content(content, is_answer=is_answer) + _parse_attachments(stored.get("files"))


def _parse_content(content: object, *, is_answer: bool) -> list[Item]:
    if isinstance(content, list):
        return [parts.parse_part(part) for part in content if isinstance(part, dict)]
    if not isinstance(content, str):
        return []
    # A user who pastes a fold has called no tool.
    return details.parse_content(content) if is_answer else [Text(content)]


def _parse_attachments(files: object) -> list[Item]:
    if not isinstance(files, list):
        return []
    return [_parse_attachment(file) for file in files if isinstance(file, dict)]


def _drop_markers(items: list[Item]) -> Iterator[Item]:
    """Yields the items without hidden lines and without texts that are empty then."""
    for item in items:
        visible = item
        if isinstance(item, Text) and "]: #" in item.text:  # This is cheaper than the pattern.
            visible = Text(_MARKER.sub("", item.text))
        if visible != Text(""):
            yield visible


def _parse_attachment(file: dict[str, Any]) -> Attachment:
    content_type = str(file.get("content_type") or "")
    is_image = file.get("type") == "image" or content_type.startswith("image/")
    name = str(file.get("name") or file.get("id") or "")
    return Attachment(name, AttachmentKind.IMAGE if is_image else AttachmentKind.FILE)


def read_prompt_tokens(usage: object) -> int | None:
    """The tokens that a provider counted for a request; None if it does not say."""
    if not isinstance(usage, Mapping):
        return None
    for name in ("prompt_tokens", "prompt_eval_count"):  # The second one is Ollama's.
        count = _read_count(usage.get(name))
        if count is not None:
            return count
    return None


def read_ollama_tokens(usage: object) -> int | None:
    """The tokens of a request that Ollama has read; None for any other server.

    Ollama silently cuts a request that is too large. Other servers' counts leave out cached tokens.
    """
    return _read_count(usage.get("prompt_eval_count")) if isinstance(usage, Mapping) else None


def _read_seconds(value: object) -> int | None:
    """Unix time in seconds, also if it comes in milliseconds, as in imported chats."""
    moment = _read_count(value)
    while moment is not None and moment > _LAST_SECOND:
        moment //= 1000
    return moment


def _read_count(value: object) -> int | None:
    """A finite number from 0 on, as a whole number; None for any other value."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value < inf else None
