"""The input and the answer of one call of a summariser.

`Reading` goes in and `Reply` comes out, for every kind of summariser. Whether a reply may be
published is decided by `gate`, never by the summariser.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a step as text, its sentences numbered: `[12.3] …`."""

    #: Who said it.
    label: str
    text: str


class Finish(StrEnum):
    """Why the summariser stopped writing."""

    STOP = "stop"
    LENGTH = "length"
    OTHER = "other"  # a content filter, a tool call, an unknown word


@dataclass(frozen=True, slots=True)
class RejectedReply:
    """A summariser's first answer to a reading, which was rejected."""

    text: str
    reasons: tuple[str, ...]
    finish: Finish = Finish.STOP
    #: Whether its length is the only fault.
    is_too_long: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The input of a summariser: the state and the pins so far, and the newly covered steps."""

    #: Lines of the state so far.
    previous: tuple[str, ...]
    #: The new steps.
    excerpts: tuple[Excerpt, ...]
    #: Bound on the state that is asked for.
    state_tokens: int
    #: Pins so far as lines such as `P7 rule: …`.
    entries: tuple[str, ...] = ()
    #: 1 of 1, unless one turn was too long for the summariser's window.
    part: int = 1
    parts: int = 1
    #: ISO 639-1 code of the language of the conversation.
    language: str = "en"
    #: The earlier reply to this very reading, if it was rejected.
    rejected: RejectedReply | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A summariser's answer; `reply` parses it."""

    text: str
    finish: Finish
    #: The provider's own counts; None when it gave none.
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Summariser(Protocol):
    """The one seam to whatever writes summaries."""

    @property
    def name(self) -> str:
        """Shown to operators and stored with each checkpoint, e.g. `openai:qwen3-8b`."""
        ...

    async def summarise(self, reading: Reading) -> Reply:
        """Write the new state, and point at what has to stay word for word.

        Raises:
            SummariserError: no usable answer came in time, with the reason in words.
        """
        ...


class TextRunner(Protocol):
    """Runs work on texts beside the event loop: in a text process, or in a thread."""

    async def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result."""
        ...
