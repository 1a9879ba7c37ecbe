"""The pins: sentences of the chat that a summariser chose, kept word for word. Pure.

The model points and is in charge: it alone adds, replaces and drops, and no rule does. The words
are always those of the chat, and who said them decides what they can be: only a user's own words
make a rule.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from service.summarising.kept.talk import told
from service.summarising.markup import unmarked
from service.summarising.memory import Kind, Pin
from service.summarising.reply.answer import Answer, Keep, Replaced
from service.summarising.reply.meant import Meant, key
from service.summarising.utterances import Speaker, Utterance
from service.text.terms import terms

OPERATOR = "operator"
"""Source of a pin that no message has: what an operator wrote."""
DROPPED = 0
"""`replaced_by` of a pin that nothing replaced; it only keeps its number from being given again."""

_RULES = frozenset((Kind.CONSTRAINT, Kind.DECISION, Kind.PREFERENCE, Kind.GOAL))
_RANKS = list(Kind)
_REMEMBERED = 64  # replaced pins that are kept, so that it can be seen what held before
_RANGE = 40  # sentences that one range may name
_MOST_WORDS = 64  # sentences of one reply that are looked for by their words
_COMPARED = 8  # sentences of one line that are compared with the words beside their numbers


@dataclass(frozen=True, slots=True)
class Merged:
    """The pins, by number, and what of an answer nothing bears out."""

    pins: tuple[Pin, ...]
    unfounded: tuple[str, ...] = ()


def merge(pins: Sequence[Pin], said: Sequence[Utterance], answer: Answer) -> Merged:
    """`pins` and what an answer makes of them.

    Args:
        pins: of the memory that this one grows from.
        said: what the summariser was shown; it may point at any of it.
        answer: the summariser's.
    """
    book = _Book(pins, said)
    replaced = [(one, book.meant(one.numbers, one.words)) for one in answer.replaced]
    book.keep(answer.keeps, replaced)
    for one, targets in replaced:
        book.replace(one, targets)
    book.drop(answer.drops)
    return Merged(_remembered(book.pins.values()), tuple(book.unfounded))


def shown(pins: Iterable[Pin]) -> Iterator[Pin]:
    """Those that hold."""
    return (pin for pin in pins if pin.replaced_by is None)


def line(pin: Pin) -> str:
    """What a summary shows of a pin: its words, and whose they are when they are not a user's."""
    words = unmarked(pin.text)
    return words if pin.speaker is Speaker.USER else f"{pin.speaker}: {words}"


_Target = Utterance | int
"""A sentence, or the number of a pin."""


class _Wanted(NamedTuple):
    """A sentence to be pinned; `chosen` when it was kept, and not only said to replace a pin."""

    utterance: Utterance
    kinds: tuple[Kind, ...]
    chosen: bool


class _Book:
    """The pins while an answer is applied to them."""

    def __init__(self, pins: Sequence[Pin], said: Sequence[Utterance]) -> None:
        self.pins = {pin.number: pin for pin in pins}
        self.unfounded: list[str] = []
        self._last = max((_highest(pin) for pin in pins), default=0)
        self._of_sentence = {pin.utterance: pin.number for pin in pins if pin.utterance}
        self._of_words = {key(pin.text): pin.number for pin in shown(pins)}
        self._said = list(said)
        self._places = {one.number: place for place, one in enumerate(said)}
        self._steps = _single(said)
        self._meant: Meant | None = None
        self._looked = 0

    def meant(self, numbers: Sequence[str], words: str) -> list[_Target]:
        """What is pointed at.

        A number whose sentence has nothing of the words beside it is a slip, or a quantity; then
        the words decide, if it is clear what they mean.
        """
        pointed = [target for number in numbers for target in self._pointed(number)]
        if pointed and (not words or self._speaks_of(pointed, words)):
            return pointed
        return list(self._by_words(words)) or pointed

    def keep(
        self, keeps: Iterable[Keep], replaced: Iterable[tuple[Replaced, Sequence[_Target]]]
    ) -> None:
        """Pins what is to be kept, and what takes the place of a pin, in the order of the talk."""
        wanted: list[_Wanted] = []
        for one in keeps:
            targets = self.meant(one.numbers, one.words)
            self._note_unknown(one, targets)
            for target in targets:
                if isinstance(target, int):
                    self._keep_pin(target, one.kinds)
                else:
                    wanted.append(_Wanted(target, one.kinds, chosen=True))
        for change, found in replaced:
            if self._holds(change.number):
                kind = self.pins[change.number].kind
                sentences = [target for target in found if not isinstance(target, int)]
                wanted += [_Wanted(target, (kind,), chosen=False) for target in sentences]
        for pin in sorted(wanted, key=self._order):
            self._pin(pin.utterance, pin.kinds, chosen=pin.chosen)

    def replace(self, change: Replaced, targets: Sequence[_Target]) -> None:
        """Marks a pin as replaced. A user's rule yields to their own words only."""
        fitting = [
            self._number(target) for target in targets if self._may_replace(target, change.number)
        ]
        if not fitting:
            by = ", ".join(change.numbers) or change.words
            self.unfounded.append(f"replaced: P{change.number} by {by}")
            return
        old = self.pins[change.number]
        self.pins[old.number] = replace(old, replaced_by=fitting[0])

    def drop(self, numbers: Iterable[int]) -> None:
        """Strikes out what a summariser once kept; an operator's stays."""
        for number in numbers:
            if not self._holds(number) or self.pins[number].source == OPERATOR:
                self.unfounded.append(f"drop: P{number}")
            elif number == max(self.pins):
                # Deleted, the next pin would get its number.
                self.pins[number] = replace(self.pins[number], replaced_by=DROPPED)
            else:
                del self.pins[number]

    def _order(self, wanted: _Wanted) -> tuple[int, int]:
        """That of the talk; of several kinds for a sentence the weightiest is last, and stays."""
        return self._places[wanted.utterance.number], -_RANKS.index(wanted.kinds[0])

    def _pointed(self, number: str) -> list[_Target]:
        if number.startswith("P"):
            pin = int(number[1:])
            return [pin] if pin in self.pins else []
        first, _, last = number.partition("-")
        begin, end = self._places.get(first), self._places.get(last or first)
        if begin is not None and end is not None:
            return list(self._said[begin : min(end, begin + _RANGE - 1) + 1])
        alone = self._steps.get(number) or self._of_sentence.get(number)
        return [alone] if alone else []

    def _speaks_of(self, targets: Sequence[_Target], words: str) -> bool:
        wanted = terms(words)
        texts = (self._text(target) for target in targets[:_COMPARED])
        return any(wanted & terms(text) for text in texts) or not wanted

    def _text(self, target: _Target) -> str:
        return self.pins[target].text if isinstance(target, int) else told(target)

    def _by_words(self, words: str) -> list[Utterance]:
        if not words or self._looked >= _MOST_WORDS:
            return []
        self._looked += 1
        self._meant = self._meant or Meant(self._said)
        return self._meant.by(words)

    def _note_unknown(self, keep: Keep, targets: Sequence[_Target]) -> None:
        """Says what of a line nothing bears out."""
        unknown = [number for number in keep.numbers if not self._pointed(number)]
        if not targets and not unknown:
            self.unfounded.append(keep.words)
        elif not targets or (unknown and not keep.words):
            # Beside words, a wrong number is a slip: the words say what was meant.
            what = f"{', '.join(unknown)} {keep.words}"
            self.unfounded.append(f"keep {keep.kinds[0]}: {what}".strip())

    def _keep_pin(self, number: int, kinds: tuple[Kind, ...]) -> None:
        """Another kind for a pin that is there; without its sentence it is made no rule."""
        pin = self.pins[number]
        fitting = [kind for kind in kinds if pin.kind in _RULES or kind not in _RULES]
        if fitting:
            self.pins[number] = replace(pin, kind=_kind(pin, fitting), replaced_by=None)

    def _pin(self, one: Utterance, kinds: tuple[Kind, ...], *, chosen: bool) -> None:
        """Pins a sentence, unless it is; then it is of the kind that was `chosen` for it."""
        fitting = kinds if one.by_user else [_unbinding(kind) for kind in kinds]
        known = self.pins.get(self._number(one))
        if known is None:
            self._last += 1
            self._add(_new_pin(self._last, fitting[0], one))
        elif chosen:
            taken_over = one.by_user and known.speaker is not one.speaker
            pin = _said_by(known, one) if taken_over else known
            self._add(replace(pin, kind=_kind(pin, fitting), replaced_by=None))

    def _add(self, pin: Pin) -> None:
        self.pins[pin.number] = pin
        self._of_sentence[pin.utterance] = pin.number
        self._of_words[key(pin.text)] = pin.number

    def _number(self, target: _Target) -> int:
        """Of the pin that a sentence has become; 0 when it is none."""
        if isinstance(target, int):
            return target
        return self._of_sentence.get(target.number) or self._of_words.get(key(told(target))) or 0

    def _may_replace(self, target: _Target, old: int) -> bool:
        new = self._number(target)
        if new == old or not self._holds(new) or not self._holds(old):
            return False
        if self.pins[old].kind not in _RULES:
            return True
        return self.pins[new].kind in _RULES if isinstance(target, int) else target.by_user

    def _holds(self, number: int) -> bool:
        return number in self.pins and self.pins[number].replaced_by is None


def _new_pin(number: int, kind: Kind, one: Utterance) -> Pin:
    return Pin(
        number,
        kind,
        told(one),
        source=one.source,
        speaker=one.speaker,
        utterance=one.number,
        at=one.at,
        answers=one.answers,
    )


def _kind(pin: Pin, kinds: Sequence[Kind]) -> Kind:
    """The pin's own kind, where a section may mean several."""
    return pin.kind if pin.kind in kinds else kinds[0]


def _highest(pin: Pin) -> int:
    """The highest number that a pin names: a replaced one may outlive the pin that replaced it."""
    return max(pin.number, pin.replaced_by or 0)


def _unbinding(kind: Kind) -> Kind:
    """What an assistant said or a user pasted binds nobody."""
    return Kind.FACT if kind in _RULES else kind


def _said_by(pin: Pin, one: Utterance) -> Pin:
    """A user has taken an assistant's words over."""
    return replace(pin, speaker=one.speaker, source=one.source, utterance=one.number, at=one.at)


def _single(said: Sequence[Utterance]) -> dict[str, Utterance]:
    """The steps that have one sentence, by their number."""
    counted = Counter(one.step for one in said)
    return {str(one.step): one for one in said if counted[one.step] == 1}


def _remembered(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """All that hold, and the newest of those that were replaced."""
    ordered = sorted(pins, key=lambda pin: pin.number)
    behind = [pin for pin in ordered if pin.replaced_by is not None]
    forgotten = {pin.number for pin in behind[:-_REMEMBERED]}
    return tuple(pin for pin in ordered if pin.number not in forgotten)
