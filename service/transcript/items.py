"""The typed values of a transcript.

A `Message` is one node of the chat tree in the folded view, with its `items` in the order in which
they happened. A `Step` may never be split: it is an assistant text with its tool calls and all
their results, or one plain text.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# Names and types come from clients, and a model reads them, so they are bounded.
_LONGEST_NAME = 120
_LONGEST_TYPE = 40
_NO_TYPE = re.compile(r"[^A-Za-z0-9_.:/+-]++")
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f]++")


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool."""

    id: str
    name: str
    #: JSON as text.
    arguments: str
    #: False for a call that waits, runs or was cut off.
    finished: bool = True


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer."""

    call_id: str
    text: str
    #: URLs of images in the answer.
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeRun:
    """Code that Open WebUI's code interpreter ran, and its output."""

    code: str
    output: str


class AttachmentKind(StrEnum):
    """The kind of an attachment."""

    IMAGE = "image"
    FILE = "file"
    AUDIO = "audio"
    VIDEO = "video"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A part of a message that is no text. The transcript does not have its content."""

    #: Name of the file, or of the unknown type of a part; "" for none.
    name: str
    kind: AttachmentKind

    @property
    def told(self) -> str:
        """The attachment as a summary names it, on one line of bounded length."""
        if self.kind is AttachmentKind.OTHER:
            type_name = _NO_TYPE.sub("", self.name)[:_LONGEST_TYPE]
            return f"[part of type {type_name or 'unknown'}]"
        name = _clean_name(self.name)
        return f"[attached {self.kind}: {name}]" if name else f"[attached {self.kind}]"


@dataclass(frozen=True, slots=True)
class Unsent:
    """An item that the model is not sent, such as its thoughts or a `web_search_call`."""


Item = Text | ToolCall | ToolResult | CodeRun | Attachment | Unsent


@dataclass(frozen=True, slots=True)
class Message:
    """One stored message."""

    id: str
    role: str
    items: tuple[Item, ...]
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call together with its result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Step:
    """The smallest part of a chat that is covered or kept."""

    #: The message that it is a part of.
    message_id: str
    #: `user` or `assistant`.
    role: str
    #: The text before the calls.
    text: str
    #: The calls with their results; a plain text has none.
    calls: tuple[Call, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    #: Unix seconds of the message.
    at: int | None = None


Native = dict[str, Any]
"""A message of the native view, as an OpenAI chat completions request carries it."""

Stored = dict[str, Any]
"""A message of the folded view, as Open WebUI stores it and `outlet` shows it."""


def _clean_name(name: str) -> str:
    """A name on one line, without brackets that would end the ones around it."""
    flat = _UNSEEN.sub(" ", name).strip().replace("[", "(").replace("]", ")")
    return flat if len(flat) <= _LONGEST_NAME else f"{flat[: _LONGEST_NAME - 1]}…"
