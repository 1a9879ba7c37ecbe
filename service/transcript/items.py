"""The typed values of a transcript: what one stored Open WebUI message holds.

A `Message` is one node of the chat tree in the folded view. Its `items` stand in the order in which
they happened; a `Step` is what may never be split: an assistant text with its tool calls and all
their results, or one plain text.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# Names and types come from clients and stand in what a model reads, so they are bounded.
_LONGEST_NAME = 120
_LONGEST_TYPE = 40
_NO_TYPE = re.compile(r"[^A-Za-z0-9_.:/+-]++")
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f]++")


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What the model thought. Never replayed, never summarised, never counted."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; `arguments` is JSON as text.

    Unless `finished`, it waits, runs or was cut off.
    """

    id: str
    name: str
    arguments: str
    finished: bool = True


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered; `images` are their URLs."""

    call_id: str
    text: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeRun:
    """Code that Open WebUI's code interpreter ran, and what it printed."""

    code: str
    output: str


class AttachmentKind(StrEnum):
    """What is attached."""

    IMAGE = "image"
    FILE = "file"
    AUDIO = "audio"
    VIDEO = "video"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A part of a message that is no text; what is in it is not in the transcript.

    Attributes:
        name: of the file, or of the unknown type of a part; "" for none.
        kind: what it is.
    """

    name: str
    kind: AttachmentKind

    @property
    def told(self) -> str:
        """What a summary says of it, on one line and bounded."""
        match self.kind:
            case AttachmentKind.IMAGE | AttachmentKind.FILE:
                name = _clean(self.name)
                return f"[attached {self.kind}: {name}]" if name else f"[attached {self.kind}]"
            case AttachmentKind.AUDIO | AttachmentKind.VIDEO:
                return f"[{self.kind}]"
            case AttachmentKind.OTHER:
                type_name = _NO_TYPE.sub("", self.name)[:_LONGEST_TYPE]
                return f"[part of type {type_name or 'unknown'}]"


@dataclass(frozen=True, slots=True)
class Marker:
    """A hidden line by which the OpenRouter pipe finds what it keeps elsewhere.

    `id` is what stands between its brackets.
    """

    id: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """An item of a type that says nothing to the model, such as `web_search_call`."""

    type: str


Item = Text | Reasoning | ToolCall | ToolResult | CodeRun | Attachment | Marker | Unknown


@dataclass(frozen=True, slots=True)
class Message:
    """One stored message."""

    id: str
    role: str
    items: tuple[Item, ...]
    timestamp: int | None = None

    @property
    def markers(self) -> tuple[str, ...]:
        """Ids of the hidden marker lines that were left out of the texts, in order."""
        return tuple(item.id for item in self.items if isinstance(item, Marker))


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call together with its result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Step:
    """The atom of covering and keeping.

    Attributes:
        message_id: the message that it is a part of.
        role: who wrote it, `user` or `assistant`.
        text: what came before the calls.
        calls: with their results; a plain text has none.
        attachments: what else came with the text.
        at: Unix seconds of the message.
    """

    message_id: str
    role: str
    text: str
    calls: tuple[Call, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    at: int | None = None


Native = dict[str, Any]
"""A message of the native view, as an OpenAI chat completions request carries it."""

Stored = dict[str, Any]
"""A message of the folded view, as Open WebUI stores it and `outlet` shows it."""


def _clean(name: str) -> str:
    """A name on one line, that does not end the brackets around it."""
    flat = _UNSEEN.sub(" ", name).strip().replace("[", "(").replace("]", ")")
    return flat if len(flat) <= _LONGEST_NAME else f"{flat[: _LONGEST_NAME - 1]}…"
