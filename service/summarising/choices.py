"""What a summariser chose: rules and quotations, as pins that code carries on. Pure.

The model points and is in charge: it alone adds, replaces and drops, and no rule does. The words
are always those of the chat, and who said them decides what they can be: only a user's own words
make a rule.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from service.summarising.memory import Kind, Pin
from service.summarising.reply import Answer
from service.summarising.talk import told
from service.summarising.utterances import Utterance

OPERATOR = "operator"
"""Source of a pin that no message has: what an operator wrote."""
DROPPED = 0
"""`replaced_by` of a pin that nothing replaced; it only keeps its number from being given again."""

_REMEMBERED = 64  # replaced pins that are kept, so that it can be seen what held before
_RANGE = 40  # sentences that one range may name


@dataclass(frozen=True, slots=True)
class Merged:
    """The pins, by number, and what of an answer nothing bears out."""

    pins: tuple[Pin, ...]
    unfounded: tuple[str, ...] = ()


def merged(pins: Sequence[Pin], said: Sequence[Utterance], answer: Answer) -> Merged:
    """`pins` and what an answer makes of them.

    Args:
        pins: of the memory that this one grows from.
        said: what the summariser was shown; it may point at any of it.
        answer: the summariser's.
    """
    book = _Book(pins, said)
    chosen = [
        *((number, Kind.RULE) for number in answer.rules),
        *((number, Kind.QUOTATION) for number in answer.quotations),
    ]
    wanted: list[tuple[Utterance, Kind]] = []
    for number, kind in chosen:
        wanted += [(one, kind) for one in book.sentences(number)]
    # In the order in which they were said; of two kinds for a sentence the rule stays first.
    for one, kind in sorted(wanted, key=lambda pair: (pair[0].step, pair[0].place)):
        book.pin(one, kind)
    for old, by in answer.replaced:
        book.replace(old, by)
    for dropped in answer.drops:
        book.drop(dropped)
    return Merged(_remembered(book.pins.values()), tuple(book.unfounded))


class _Book:
    """The pins while an answer is applied to them."""

    def __init__(self, pins: Sequence[Pin], said: Sequence[Utterance]) -> None:
        self.pins = {pin.number: pin for pin in pins}
        self.unfounded: list[str] = []
        self._of_sentence = {pin.utterance: pin.number for pin in pins if pin.utterance}
        # A replaced one may outlive the pin that replaced it.
        self._last = max((max(pin.number, pin.replaced_by or 0) for pin in pins), default=0)
        self._said = list(said)
        self._places = {one.number: place for place, one in enumerate(said)}
        self._alone = _single(said)

    def sentences(self, number: str) -> list[Utterance]:
        """What is pointed at; a pin that is pointed at simply stays."""
        if number.startswith("P"):
            if int(number[1:]) not in self.pins:
                self.unfounded.append(number)
            return []
        first, _, last = number.partition("-")
        begin, end = self._places.get(first), self._places.get(last or first)
        if begin is not None and end is not None:
            return self._said[begin : min(end, begin + _RANGE - 1) + 1]
        if number in self._alone:
            return [self._alone[number]]
        self.unfounded.append(number)
        return []

    def pin(self, one: Utterance, kind: Kind) -> None:
        """Pins a sentence, unless it is."""
        if one.number in self._of_sentence:
            return
        self._last += 1
        # What an assistant said or a user pasted binds nobody.
        fitting = kind if one.by_user else Kind.QUOTATION
        self.pins[self._last] = Pin(
            self._last,
            fitting,
            told(one),
            source=one.source,
            speaker=one.speaker,
            utterance=one.number,
            at=one.at,
        )
        self._of_sentence[one.number] = self._last

    def replace(self, old: int, by: str) -> None:
        """Marks a pin as replaced. A user's rule yields to a user's own words only."""
        new = self._replacement(old, by)
        if new is None or not self._holds(old):
            self.unfounded.append(f"replaced: P{old} by {by}")
            return
        self.pins[old] = replace(self.pins[old], replaced_by=new)

    def drop(self, number: int) -> None:
        """Strikes out what a summariser once chose; what an operator wrote stays."""
        if not self._holds(number) or self.pins[number].source == OPERATOR:
            self.unfounded.append(f"drop: P{number}")
            return
        self.pins[number] = replace(self.pins[number], replaced_by=DROPPED)

    def _replacement(self, old: int, by: str) -> int | None:
        """The number of the pin that takes the place of another, which is made if need be."""
        if not self._holds(old):
            return None
        new = int(by[1:]) if by.startswith("P") else self._of_sentence_for(by, self.pins[old].kind)
        if new == old or not self._holds(new):
            return None
        is_rule = self.pins[old].kind is Kind.RULE
        return None if is_rule and self.pins[new].kind is not Kind.RULE else new

    def _of_sentence_for(self, number: str, kind: Kind) -> int:
        """The number of the pin that a sentence has become, made now if need be; 0 for none."""
        for one in self.sentences(number)[:1]:
            if one.by_user or kind is not Kind.RULE:
                self.pin(one, kind)
            return self._of_sentence.get(one.number, 0)
        return 0

    def _holds(self, number: int) -> bool:
        return number in self.pins and self.pins[number].replaced_by is None


def _single(said: Sequence[Utterance]) -> dict[str, Utterance]:
    """The steps that have one sentence, by their number."""
    counted = Counter(one.step for one in said)
    return {str(one.step): one for one in said if counted[one.step] == 1}


def _remembered(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """All that hold, and the newest of those that were replaced."""
    ordered = sorted(pins, key=lambda pin: pin.number)
    behind = [pin for pin in ordered if pin.replaced_by is not None]
    forgotten = {pin.number for pin in behind[:-_REMEMBERED]}
    # The last one keeps its number from being given again.
    return tuple(pin for pin in ordered if pin.number not in forgotten)
