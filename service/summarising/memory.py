"""What a next summary grows from: the narrative, the pinned sections and the ledger so far.

A narrative is rewritten by a summariser. Pins and ledger entries are made by code and carried from checkpoint to
checkpoint word for word.
"""

from dataclasses import dataclass
from enum import StrEnum

from service.summarising.ledger import Entry


class Kind(StrEnum):
    """What a pin is. In order of worth: when room is short, the last go first."""

    CONSTRAINT = "constraint"
    DECISION = "decision"
    PREFERENCE = "preference"
    GOAL = "goal"
    VALUE = "value"
    FACT = "fact"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Pin:
    """One entry of the pinned sections: a sentence of the conversation as it stands there.

    Attributes:
        number: shown as `P12`; the same in all later checkpoints.
        kind: which section it belongs to.
        text: the words, on one line; a long sentence is shortened between words.
        source: id of the message that it came from.
        role: who said it: `user` or `assistant`; `pasted`, when a user announced it as somebody else's.
        replaced_by: number of the pin that superseded it; such a pin is not shown any more.
        amended_by: number of a later pin that may supersede a part of it; both are shown, as one line.
    """

    number: int
    kind: Kind
    text: str
    source: str
    role: str = "user"
    replaced_by: int | None = None
    amended_by: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """`narrative` is Markdown with `## ` heads; `pins` are in the order in which they were said."""

    narrative: str = ""
    pins: tuple[Pin, ...] = ()
    ledger: tuple[Entry, ...] = ()
