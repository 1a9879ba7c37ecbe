"""Applies a summariser's choices: rules and quotations become pins that code carries on. Pure.

Only a user's own words make a rule, and only a user's own newer words take one away, so a model
that obeys a tool removes none. What is said again stands once.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from service.summarising.memory import Kind, Pin
from service.summarising.reply import Answer
from service.summarising.talk import write_with_context
from service.summarising.utterances import Speaker, Utterance
from service.text import characters

OPERATOR = "operator"
"""Source of a pin that no message has: what an operator wrote."""

_REMEMBERED = 64  # replaced pins that are kept, so that it can be seen what held before
_RANGE = 40  # sentences that one range may name
_NUMBER = re.compile(r"(p?)0*(\d{1,6}(?:\.\d{1,4})?)")
_SENTENCE_ENDS = re.compile(r"[.!]\s+|[。！]\s*")
_ENDS = " .!。！,;:：…"


@dataclass(frozen=True, slots=True)
class PinUpdate:
    """The pins after an answer, ordered by number."""

    pins: tuple[Pin, ...]
    #: The choices of the answer that nothing supports.
    unfounded: tuple[str, ...] = ()


def apply_choices(
    pins: Sequence[Pin], utterances: Sequence[Utterance], answer: Answer, texts: Iterable[str] = ()
) -> PinUpdate:
    """Makes and replaces pins as an answer chooses.

    Args:
        pins: of the memory that the new one grows from.
        utterances: those that the summariser was shown.
        answer: the summariser's.
        texts: of the chat, from which the answer may have copied a choice.
    """
    book = _PinBook(pins, utterances, texts if answer.replaced else ())
    wanted: list[tuple[Utterance, Kind]] = []
    for kind, numbers in ((Kind.RULE, answer.rules), (Kind.QUOTATION, answer.quotations)):
        for number in numbers:
            wanted += [(one, kind) for one in book.find_sentences(number)]
    # In the order in which they were said; of two kinds for a sentence, the rule stays first.
    wanted.sort(key=lambda pair: (pair[0].step, pair[0].place))
    for one, kind in wanted:
        book.pin(one, kind)
    for old, by in answer.replaced:
        book.replace(old, by)
    left = _forget_old_pins(_merge_repeated(book.pins))
    return PinUpdate(left, tuple(book.unfounded))


class _PinBook:
    """The pins while an answer is applied to them."""

    def __init__(
        self, pins: Sequence[Pin], utterances: Sequence[Utterance], texts: Iterable[str]
    ) -> None:
        self.pins = {pin.number: pin for pin in pins}
        self.unfounded: list[str] = []
        self._of_sentence = {pin.utterance: pin.number for pin in pins if pin.utterance}
        # A replaced one may outlive the pin that replaced it.
        self._last = max((max(pin.number, pin.replaced_by or 0) for pin in pins), default=0)
        self._utterances = list(utterances)
        self._places = {one.number: place for place, one in enumerate(utterances)}
        self._numbers_of_texts = [_find_numbers(text) for text in texts]

    def find_sentences(self, number: str) -> list[Utterance]:
        """Finds the utterances of a number or a range; a pin that is named stays as it is."""
        if number.startswith("P"):
            if int(number[1:]) not in self.pins:
                self.unfounded.append(number)
            return []
        first, _, last = number.partition("-")
        begin, end = self._places.get(first), self._places.get(last or first)
        if begin is not None and end is not None:
            return self._utterances[begin : min(end, begin + _RANGE - 1) + 1]
        self.unfounded.append(number)
        return []

    def pin(self, one: Utterance, kind: Kind) -> None:
        """Pins a sentence of somebody's own words, unless it is pinned already."""
        if one.number in self._of_sentence or not one.own:
            return
        self._last += 1
        # The words of an assistant bind nobody.
        fitting = kind if one.by_user else Kind.QUOTATION
        self.pins[self._last] = Pin(
            self._last,
            fitting,
            write_with_context(one),
            source=one.source,
            speaker=one.speaker,
            utterance=one.number,
            at=one.at,
        )
        self._of_sentence[one.number] = self._last

    def replace(self, old: int, by: str) -> None:
        """Marks a pin as replaced. A user's rule yields to a user's own newer words only."""
        new = self._replacement(old, by)
        if new is None:
            self.unfounded.append(f"replaced: P{old} by {by}")
            return
        self.pins[old] = replace(self.pins[old], replaced_by=new)

    def _replacement(self, old: int, by: str) -> int | None:
        """Finds or makes the pin that replaces another; returns its number."""
        if not self._holds(old) or self._is_copied(old, by):
            return None
        kind = self.pins[old].kind
        new = int(by[1:]) if by.startswith("P") else self._pin_for(by, kind)
        if new == old or not self._holds(new):
            return None
        is_founded = kind is not Kind.RULE or self._is_newer_rule(new, old)
        return new if is_founded else None

    def _is_copied(self, old: int, by: str) -> bool:
        """Whether a text of the chat names both numbers, so that it worded the choice itself."""
        choice = _find_numbers(f"P{old} {by}")
        return any(choice <= named for named in self._numbers_of_texts)

    def _is_newer_rule(self, new: int, old: int) -> bool:
        """Whether a rule was read just now and was said after another.

        An entry of an earlier summary is no ground: it is no new word of the user.
        """
        one, before = self.pins[new], self.pins[old]
        if one.kind is not Kind.RULE or one.utterance not in self._places:
            return False
        return not before.utterance or _find_place(one) > _find_place(before)

    def _pin_for(self, number: str, kind: Kind) -> int:
        """Returns the number of a sentence's pin, which is made if need be; 0 for none."""
        for one in self.find_sentences(number)[:1]:
            if one.by_user or kind is not Kind.RULE:
                self.pin(one, kind)
            return self._of_sentence.get(one.number, 0)
        return 0

    def _holds(self, number: int) -> bool:
        """Whether a pin exists and was not replaced."""
        return number in self.pins and self.pins[number].replaced_by is None


def _find_numbers(text: str) -> frozenset[tuple[str, str]]:
    """Finds the numbers in a text that a reply could take for those of pins or sentences."""
    return frozenset(_NUMBER.findall(characters.fold(text)))


def _merge_repeated(pins: Mapping[int, Pin]) -> Collection[Pin]:
    """Replaces each pin whose sentences all stand in a newer one."""
    found = dict(pins)
    holders: defaultdict[tuple[Kind, Speaker, str], set[int]] = defaultdict(set)
    for number in sorted(pins, reverse=True):
        pin = pins[number]
        sentences = [(pin.kind, pin.speaker, one) for one in _fold_sentences(pin.text)]
        if pin.replaced_by is not None or not sentences:
            continue
        same = set.intersection(*(holders[one] for one in sentences))
        if same:
            found[number] = replace(pin, replaced_by=max(same))
            continue
        for one in sentences:
            holders[one].add(number)
    return found.values()


def _fold_sentences(text: str) -> set[str]:
    """Folds the sentences of a text for comparison; a sentence under a head stays with it."""
    parts = [text] if " → " in text else _SENTENCE_ENDS.split(text)
    folded = (" ".join(characters.fold(part).split()).rstrip(_ENDS) for part in parts)
    return {one for one in folded if one}


def _find_place(pin: Pin) -> tuple[int, int]:
    """Returns the step of a pin's sentence, and its number in that step."""
    step, _, place = pin.utterance.partition(".")
    return int(step), int(place)


def _forget_old_pins(pins: Collection[Pin]) -> tuple[Pin, ...]:
    """Keeps all pins that hold, and the newest of those that were replaced."""
    replaced = [pin for pin in pins if pin.replaced_by is not None]
    forgotten = {pin.number for pin in replaced[:-_REMEMBERED]}
    # The last one keeps its number from being given again.
    return tuple(pin for pin in pins if pin.number not in forgotten)
