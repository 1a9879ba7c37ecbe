"""What the next summary grows from. Stored with each checkpoint, typed: nothing is parsed back.

A summariser rewrites `narrative` each time. All else is made by code: the words of the chat,
carried on as they stand there.
"""

from dataclasses import dataclass
from enum import StrEnum

from service.summarising.ledger import Entry
from service.summarising.utterances import Speaker, Utterance


class Section(StrEnum):
    """The heads of a summary, in its order."""

    GOAL = "Goal"
    CONSTRAINTS = "Constraints and preferences"
    DECISIONS = "Decisions"
    FACTS = "Facts and values"
    FILES = "Files and artifacts"
    QUESTIONS = "Open questions"
    STATE = "Current state"


NARRATIVE = (Section.GOAL, Section.QUESTIONS, Section.STATE)
"""The sections that a summariser writes; the lines of the others are words of the chat."""


class Kind(StrEnum):
    """What a pin is. In order of worth: when room is short, the last are left out first."""

    CONSTRAINT = "constraint"
    DECISION = "decision"
    PREFERENCE = "preference"
    GOAL = "goal"
    VALUE = "value"
    FACT = "fact"
    FILE = "file"


SECTION_OF = {
    Kind.GOAL: Section.GOAL,
    Kind.CONSTRAINT: Section.CONSTRAINTS,
    Kind.PREFERENCE: Section.CONSTRAINTS,
    Kind.DECISION: Section.DECISIONS,
    Kind.VALUE: Section.FACTS,
    Kind.FACT: Section.FACTS,
    Kind.FILE: Section.FILES,
}


@dataclass(frozen=True, slots=True)
class Paragraph:
    """The narrative's lines under one head, without list marks."""

    section: Section
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pin:
    """A sentence of the chat that a summariser chose, or that an operator wrote.

    Attributes:
        number: shown as `P12`; the same in all later checkpoints.
        kind: which section it belongs to.
        text: the words, on one line.
        source: id of the message that they came from; `operator` for an operator's.
        speaker: who said it.
        utterance: number of the utterance, such as `12.3`; "" for an operator's.
        at: Unix seconds of the message.
        answers: whether its text has words of somebody else: the question before it.
        replaced_by: number of the pin that took its place; such a pin is not shown any more.
    """

    number: int
    kind: Kind
    text: str
    source: str
    speaker: Speaker = Speaker.USER
    utterance: str = ""
    at: int | None = None
    answers: bool = False
    replaced_by: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """The parts of a summary.

    Attributes:
        narrative: what a summariser wrote.
        pins: what it chose, in the order in which they were said.
        talk: what was said, in order, as far as there is room to store it.
        ledger: the tool calls.
        heard: how many steps were read to their end; the next one is `heard + 1`.
    """

    narrative: tuple[Paragraph, ...] = ()
    pins: tuple[Pin, ...] = ()
    talk: tuple[Utterance, ...] = ()
    ledger: tuple[Entry, ...] = ()
    heard: int = 0
