"""Parses a stored message (one entry of `outlet`'s list, or one database row) into a `Message`.

Whatever Open WebUI has stored is accepted: missing fields, failed and empty answers, text in parts,
inline images.
"""

import re
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from service.transcript import details, output, parts
from service.transcript.items import Attachment, Item, Kind, Marker, Message, Stored, Text

# Invisible Markdown link definitions with which OpenRouter pipes tie a text to artifacts they keep
# elsewhere: a 20-character ULID, a phase, or `openrouter:v1:<kind>:<body>`.
_MARKER = re.compile(
    r"^[ \t]*+\[([0-9A-HJKMNP-TV-Z]{20}|P:[^\]\n]*+|openrouter:v\d++:[^\]\n]*+)\]: #[^\n]*+\n?",
    re.MULTILINE,
)
_LONGEST_ID = 200  # of a marker; what is longer leads to nothing

_LAST_SECOND = 10**11  # in the year 5138; read as milliseconds, in 1973


def parse(stored: Stored) -> Message:
    """The typed message. Never fails on what Open WebUI can store; unknown parts become `Unknown` or nothing."""
    usage = stored.get("usage")
    return Message(
        id=str(stored.get("id") or ""),
        role=str(stored.get("role") or ""),
        items=tuple(_unmarked(_items(stored))),
        failed=bool(stored.get("error")),
        timestamp=_seconds(stored.get("timestamp")),
        prompt_tokens=_first(usage, "prompt_tokens", "prompt_eval_count"),
        completion_tokens=_first(usage, "completion_tokens", "eval_count"),
    )


def _items(stored: Stored) -> list[Item]:
    raw = stored.get("output")
    if (
        stored.get("role") == "assistant"
        and isinstance(raw, list)
        and (items := output.items_of(raw))
    ):
        return items
    content = stored.get("content")
    if isinstance(content, list):
        items = [parts.item_of(part) for part in content if isinstance(part, dict)]
    elif isinstance(content, str):
        items = details.items_of(content) if stored.get("role") == "assistant" else [Text(content)]
    else:
        items = []
    files = stored.get("files")
    return (
        items + [_attachment(f) for f in files if isinstance(f, dict)]
        if isinstance(files, list)
        else items
    )


def _unmarked(items: list[Item]) -> Iterator[Item]:
    """The items, with the hidden lines of their texts as items of their own: those at its top before the text."""
    for item in items:
        if not isinstance(item, Text) or "]: #" not in item.text:
            if item != Text(""):
                yield item
            continue
        markers = list(_MARKER.finditer(item.text))
        above = position = 0
        while above < len(markers) and not item.text[position : markers[above].start()].strip():
            position = markers[above].end()
            above += 1
        yield from map(_marker, markers[:above])
        if text := _MARKER.sub("", item.text):
            yield Text(text)
        yield from map(_marker, markers[above:])


def _marker(line: re.Match[str]) -> Marker:
    return Marker(line[1][:_LONGEST_ID])


def _attachment(file: dict[str, Any]) -> Attachment:
    image = file.get("type") == "image" or str(file.get("content_type") or "").startswith("image/")
    return Attachment(
        str(file.get("name") or file.get("id") or ""), Kind.IMAGE if image else Kind.FILE
    )


def _first(usage: object, *names: str) -> int | None:
    if not isinstance(usage, Mapping):
        return None
    return next((value for name in names if (value := _whole(usage.get(name))) is not None), None)


def _seconds(value: object) -> int | None:
    """Unix time in seconds; imported chats have it in milliseconds."""
    moment = _whole(value)
    while moment is not None and moment > _LAST_SECOND:
        moment //= 1000
    return moment


def _whole(value: object) -> int | None:
    """A number that is neither negative nor infinite, as a whole one."""
    return (
        int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf
        else None
    )
