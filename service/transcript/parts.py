"""Parses and counts the parts of a message whose content is a list.

The input is a part as a client sent it or Open WebUI stored it. The output is a typed item, or the
number of tokens that the model is sent for it.
"""

import json
import re
from typing import Any

from service.text import tokens
from service.transcript.items import Attachment, AttachmentKind, Item, Reasoning, Text

Part = dict[str, Any]

_TEXTS = ("text", "input_text", "output_text")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
# Types of OpenAI's chat and responses interfaces, of Anthropic's, and of other clients.
_KINDS = {
    "image_url": AttachmentKind.IMAGE,
    "input_image": AttachmentKind.IMAGE,
    "image": AttachmentKind.IMAGE,
    "file": AttachmentKind.FILE,
    "input_file": AttachmentKind.FILE,
    "document": AttachmentKind.FILE,
    "audio": AttachmentKind.AUDIO,
    "input_audio": AttachmentKind.AUDIO,
    "audio_url": AttachmentKind.AUDIO,
    "video": AttachmentKind.VIDEO,
    "video_url": AttachmentKind.VIDEO,
    "input_video": AttachmentKind.VIDEO,
}
_NAMES = ("filename", "name", "title", "file_id", "id")
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
        return Reasoning("")  # Nobody reads thoughts.
    if isinstance(kind, str) and kind in _KINDS:
        return Attachment(_find_name(part), _KINDS[kind])
    return Attachment(read_text_field(kind), AttachmentKind.OTHER)


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
