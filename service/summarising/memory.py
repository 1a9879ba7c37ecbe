"""What the next summary grows from. Stored with each checkpoint, typed: nothing is parsed back.

A summariser rewrites `state` each time. All else is made by code: the words of the chat, carried on
as they stand there.
"""

from dataclasses import dataclass
from enum import StrEnum

from service.summarising.ledger import Entry
from service.summarising.utterances import Speaker, Utterance


class Kind(StrEnum):
    """Why a sentence is kept word for word."""

    RULE = "rule"
    """It holds from now on: a user's own words, and the last that a summary leaves out."""
    QUOTATION = "quotation"
    """Its wording matters, whoever said it."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A sentence of the chat that a summariser chose, or that an operator wrote.

    Attributes:
        number: shown as `P12`; the same in all later checkpoints.
        kind: why it is kept.
        text: the words, on one line.
        source: id of the message that they came from; `operator` for an operator's.
        speaker: who said it.
        utterance: number of the utterance, such as `12.3`; "" for an operator's.
        at: Unix seconds of the message.
        replaced_by: number of the pin that took its place; such a pin is not shown any more.
    """

    number: int
    kind: Kind
    text: str
    source: str
    speaker: Speaker = Speaker.USER
    utterance: str = ""
    at: int | None = None
    replaced_by: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """The parts of a summary.

    Attributes:
        state: what a summariser wrote, as lines of Markdown; its heads begin with `## `.
        pins: the rules and quotations that it chose, in the order in which they were said.
        talk: what was said, in order, as far as there is room to store it.
        ledger: the tool calls.
        heard: how many steps were read to their end; the next one is `heard + 1`.
        told: how many of those the state tells: a summariser has read no further.
        front: pins and calls that stand in front of the state, as `P12` and `T3`.
    """

    state: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()
    talk: tuple[Utterance, ...] = ()
    ledger: tuple[Entry, ...] = ()
    heard: int = 0
    told: int = 0
    front: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[Pin, ...]:
        """Those that hold."""
        return self._holding(Kind.RULE)

    @property
    def quotations(self) -> tuple[Pin, ...]:
        """Those that hold."""
        return self._holding(Kind.QUOTATION)

    @property
    def newest(self) -> list[Utterance]:
        """What is stored of the step that was read last."""
        return [one for one in self.talk if one.step == self.heard]

    def _holding(self, kind: Kind) -> tuple[Pin, ...]:
        return tuple(pin for pin in self.pins if pin.kind is kind and pin.replaced_by is None)
