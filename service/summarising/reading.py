"""What a summariser reads in one call, and what it answers.

`Reading` goes in, `Reply` comes out, for every kind of summariser: an OpenAI-compatible server or a
native Ollama. Whether a reply may be published is decided by `gate`, never by the summariser.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One part of a step as text, its sentences numbered: `[12.3] …`; `label` says whose it is."""

    label: str
    text: str


class Finish(StrEnum):
    """Why the summariser stopped writing."""

    STOP = "stop"
    LENGTH = "length"
    OTHER = "other"  # a content filter, a tool call, an unknown word


@dataclass(frozen=True, slots=True)
class RejectedReply:
    """What a summariser answered to this very reading, and why that may not stand.

    `is_too_long` says that nothing else is wrong with it.
    """

    text: str
    reasons: tuple[str, ...]
    finish: Finish = Finish.STOP
    is_too_long: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The state and the pins so far, and the newly covered steps, in order.

    Attributes:
        previous: the state so far, its lines.
        excerpts: what is new.
        state_tokens: bound on the state that is asked for.
        entries: pins so far as lines such as `P7 rule: …`.
        part: 1 of 1, unless one turn was too long for the summariser's window.
        parts: see `part`.
        language: ISO 639-1 code of the language that the conversation is in.
        rejected: the earlier reply to this very reading, if it was rejected.
    """

    previous: tuple[str, ...]
    excerpts: tuple[Excerpt, ...]
    state_tokens: int
    entries: tuple[str, ...] = ()
    part: int = 1
    parts: int = 1
    language: str = "en"
    rejected: RejectedReply | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a summariser wrote (`answer` reads it).

    Token counts are the provider's own; None when it gave none.
    """

    text: str
    finish: Finish
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
    """How work on texts is run beside the event loop: in a text process, or in a thread."""

    async def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result."""
        ...
