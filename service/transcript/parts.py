"""The parts of a message whose content is a list: text, and what a summary can only name.

In: a part as a client sent it or Open WebUI stored it. Out: a typed item, or what the model is sent
for it.
"""

import json
import re
from typing import Any

from service.text import tokens
from service.transcript.items import Attachment, AttachmentKind, Item, Reasoning, Text

Part = dict[str, Any]

_TEXTS = ("text", "input_text", "output_text")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
# OpenAI's chat and responses interfaces, Anthropic's, and what other clients send.
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
# Base64, with or without a `data:` in front.
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{200,}+")


def item_of(part: Part) -> Item:
    """The part, typed. One of an unknown type is named by its type, and never vanishes."""
    kind = part.get("type")
    if kind in _TEXTS:
        return Text(as_text(part.get("text")))
    if kind == "refusal":
        return Text(as_text(part.get("refusal")))
    if kind in _THOUGHTS:
        return Reasoning("")  # whatever is in it: it is never read
    if isinstance(kind, str) and kind in _KINDS:
        return Attachment(_name(part), _KINDS[kind])
    return Attachment(as_text(kind), AttachmentKind.OTHER)


def tokens_of(part: Part) -> int:
    """What the model is sent for a part that is no text.

    An image, a file, a sound or a film counts as one image, because its content is not here or says
    little about its cost; the provider's own count corrects it. All else costs its JSON without
    base64.
    """
    match item_of(part):
        case Text() if part.get("type") == "text":  # counted with the other texts
            return 0
        case Attachment(kind=kind) if kind is not AttachmentKind.OTHER:
            return tokens.IMAGE_TOKENS
        case _:
            return tokens.count(_ENCODED.sub("", json.dumps(part, ensure_ascii=False)))


def _name(part: Part) -> str:
    """The name of a part: its own, or that of the object in it under its type's name."""
    inner = part.get(str(part["type"]))
    return _name_in(part) or _name_in(inner)


def _name_in(holder: object) -> str:
    if not isinstance(holder, dict):
        return ""
    for key in _NAMES:
        name = holder.get(key)
        if isinstance(name, str) and name:
            return name
    return ""


def as_text(value: object) -> str:
    """A field that should be a text and may be missing or a number."""
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value)
