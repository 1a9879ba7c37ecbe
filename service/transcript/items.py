"""The typed values of a transcript: what one stored Open WebUI message holds.

A `Message` is one node of the chat tree in the folded view. Its `items` stand in the order in which they happened;
a `Step` is what may never be split: an assistant text with its tool calls and all their results, or one plain text.
"""

from dataclasses import dataclass
from typing import Any


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
    """A call of a tool; `arguments` is JSON as text. Unless `finished`, it waits, runs or was cut off."""

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


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or an image that the user attached; `image` tells which. Its content is not in the transcript."""

    name: str
    image: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """An item of a type that says nothing to the model (`web_search_call`, a compaction mark, ...)."""

    type: str


Item = Text | Reasoning | ToolCall | ToolResult | CodeRun | Attachment | Unknown


@dataclass(frozen=True, slots=True)
class Message:
    """One stored message. `markers` counts the hidden marker lines that were left out of the texts."""

    id: str
    role: str
    items: tuple[Item, ...]
    markers: int = 0
    failed: bool = False
    timestamp: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call together with its result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Step:
    """The atom of covering and keeping. `text` came before the `calls`; a plain text has none."""

    message_id: str
    role: str
    text: str
    calls: tuple[Call, ...] = ()
    attachments: tuple[Attachment, ...] = ()


Native = dict[str, Any]
"""A message of the native view, as an OpenAI chat completions request carries it."""

Stored = dict[str, Any]
"""A message of the folded view, as Open WebUI stores it and `outlet` shows it."""
