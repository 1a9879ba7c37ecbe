"""Parses and counts the parts of a message whose content is a list.

The input is a part as a client sent it or Open WebUI stored it. The output is a typed item, or the
number of tokens that the model is sent for it.
"""

import json
import re
from typing import Any

from service.text import tokens
from service.transcript.items import Attachment, AttachmentKind, Item, Text, Unsent

Part = dict[str, Any]

_TEXTS = ("text", "input_text", "output_text")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_NAMES = ("filename", "name")
# Base64, with or without `data:` in front.
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{200,}+")


def parse_part(part: Part) -> Item:
    """The typed part. A part of an unknown type is named by its type, and never vanishes."""
    kind = part.get("type")
    if kind in _TEXTS:
        return Text(read_text_field(part.get("text")))
    if kind == "refusal":
        return Text(read_text_field(part.get("refusal")))
    if kind in _THOUGHTS:
        return Unsent()
    type_name = read_text_field(kind)
    attachment_kind = _find_kind(type_name)
    is_unknown = attachment_kind is AttachmentKind.OTHER
    return Attachment(type_name if is_unknown else _find_name(part), attachment_kind)


def _find_kind(type_name: str) -> AttachmentKind:
    """The kind of a part by its type, such as `image_url` or `input_audio`."""
    bare = type_name.removeprefix("input_").removesuffix("_url")
    try:
        return AttachmentKind("file" if bare == "document" else bare)
    except ValueError:
        return AttachmentKind.OTHER


def count_part_tokens(part: Part) -> int:
    """The tokens that the model is sent for a part that is no text.

    An image, a file, a sound or a film counts as one image, because its content is missing or says
    little about its cost; the provider's own count corrects that. Any other part counts as its JSON
    without base64.
    """
    match parse_part(part):
        case Text() if part.get("type") == "text":  # It is counted with the other texts.
            return 0
        case Attachment(kind=kind) if kind is not AttachmentKind.OTHER:
            return tokens.IMAGE_TOKENS
        case _:
            return tokens.count(_ENCODED.sub("", json.dumps(part, ensure_ascii=False)))


def _find_name(part: Part) -> str:
    """The name of a part, or of the object that it has under the name of its type."""
    inner = part.get(str(part["type"]))
    return _read_name(part) or _read_name(inner)


def _read_name(holder: object) -> str:
    if not isinstance(holder, dict):
        return ""
    for key in _NAMES:
        name = holder.get(key)
        if isinstance(name, str) and name:
            return name
    return ""


def read_text_field(value: object) -> str:
    """A field that should be a text, but may be missing or a number."""
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value)
