"""The memory of a chat, from which the next summary grows; stored with each checkpoint, typed.

A summariser writes `state` again each time. Code makes all else: the words of the chat, carried on
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
    """A sentence of the chat that a summariser chose, or that an operator wrote."""

    #: Shown as `P12`; the same in all later checkpoints.
    number: int
    kind: Kind
    #: The words, on one line.
    text: str
    #: Id of the message that they came from; `operator` for an operator's.
    source: str
    speaker: Speaker = Speaker.USER
    #: Number of the utterance, such as `12.3`; "" for an operator's.
    utterance: str = ""
    #: Unix seconds of the message.
    at: int | None = None
    #: Number of the pin that took its place; a replaced pin is not shown.
    replaced_by: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """The parts of a summary."""

    #: Lines of Markdown that a summariser wrote; heads begin with `## `.
    state: tuple[str, ...] = ()
    #: Rules and quotations, in the order in which they were said.
    pins: tuple[Pin, ...] = ()
    #: Utterances in order, as far as there is room to store them.
    talk: tuple[Utterance, ...] = ()
    ledger: tuple[Entry, ...] = ()
    #: Number of steps that were read to their end.
    heard: int = 0
    #: Number of steps that the writer of the state has read.
    told: int = 0
    #: Pins and calls that stand in front of the state, as `P12` and `T3`.
    front: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[Pin, ...]:
        """The rules that hold."""
        return self.list_holding(Kind.RULE)

    @property
    def quotations(self) -> tuple[Pin, ...]:
        """The quotations that hold."""
        return self.list_holding(Kind.QUOTATION)

    @property
    def newest(self) -> list[Utterance]:
        """The stored utterances of the last step that was read."""
        return [one for one in self.talk if one.step == self.heard]

    def list_holding(self, kind: Kind) -> tuple[Pin, ...]:
        """Lists the pins of a kind that no newer pin has replaced."""
        holding = [pin for pin in self.pins if pin.replaced_by is None]
        return tuple(pin for pin in holding if pin.kind is kind)
