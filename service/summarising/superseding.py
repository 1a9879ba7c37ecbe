"""Which pins hold no more: what a user has replaced in so many words, or a summariser marked as replaced. Pure.

Only what was explicitly replaced goes. On thin evidence a constraint is amended instead: it stays, and the later
sentence is shown with it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from service.summarising import cues, values
from service.summarising.likeness import Index, key, sorts, subject, weighty
from service.summarising.memory import Kind, Pin
from service.summarising.sentences import Sentence

_SAME_SUBJECT = 0.5  # of the words of the shorter of two sentences
_BINDING = (Kind.CONSTRAINT, Kind.DECISION)
_NEIGHBOURS = 64  # earlier pins that a new one is compared with
_TELLING = 2  # earlier pins with a word, up to which it tells what a sentence is about
_ASCRIBES = re.compile(
    r"(?:\b(?:is|are|be|at|to|on|by|costs?|ist|sind|am|est|sont|es|son|è|é)|[:=])"
    r"\W{1,8}+(?:\w{1,40}+\W{1,8}+){0,2}$",
    re.I,
)
_GIVEN_UP = re.compile(
    r"\b(?:instead of|rather than|not|no longer|from|was|forget|drop|scrap|replaces?|statt|au lieu de|"
    r"en lugar de)\s++(?:\w++\s++){0,2}?([^\s\d]*+\d\S*+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A summariser's word that pin `number` is superseded by a sentence that means `text`."""

    number: int
    text: str


def stale(pins: Sequence[Pin]) -> dict[str, frozenset[str]]:
    """The values that hold no more, and for each the values that took its place."""
    by_number = {pin.number: pin for pin in pins}
    holding = [(pin.number, weighty(pin.text)) for pin in pins if pin.replaced_by is None]
    out: dict[str, frozenset[str]] = {}
    for pin in pins:
        if pin.replaced_by is not None and (new := by_number.get(pin.replaced_by)):
            own = weighty(pin.text) if pin.role == "user" else frozenset()  # an assistant's has others beside it
            named = weighty(new.text) - _given_up(new.text)
            fresh = named - own or named
            elsewhere = frozenset[str]().union(*(said for number, said in holding if number != new.number))
            for value in (own | _given_up(new.text)) - fresh - elsewhere:
                out[value] = fresh
    return out


def by_rule(pins: Sequence[Pin], old: int) -> list[Pin]:
    """Marks what a user has replaced in so many words. New pins may replace earlier new ones."""
    pins = list(pins)
    earlier = _Earlier(pins)
    for place, new in enumerate(pins):
        if place >= old and new.role == "user":
            replaced, amended = _ended(new, earlier)
            for number in amended:
                at = earlier.places[number]
                pins[at] = replace(pins[at], amended_by=new.number)
            for number in replaced:
                at = earlier.places[number]
                earlier.remove(at)
                pins[at] = replace(pins[at], replaced_by=new.number)
        if pins[place].replaced_by is None:
            earlier.add(place)
    return pins


class _Earlier:
    """Earlier pins that hold, by the words that they have in common with a new one.

    A new pin is compared with the `_NEIGHBOURS` that share its rarest words, of equals the newest. So a text of one
    sentence in a thousand variants is not compared with all of itself; a chat's memory shows few pins more than that.
    """

    def __init__(self, pins: Sequence[Pin]) -> None:
        self.places = {pin.number: place for place, pin in enumerate(pins)}
        self._pins = pins
        # Ordered sets, the newest last.
        self._with_word: dict[str, dict[int, None]] = defaultdict(dict)
        self._with_frame: dict[str, dict[int, None]] = defaultdict(dict)

    def add(self, place: int) -> None:
        """A pin is an earlier one from now on."""
        for word in subject(self._pins[place].text):
            self._with_word[word][place] = None
        self._with_frame[_frame(self._pins[place].text)][place] = None

    def remove(self, place: int) -> None:
        """A pin holds no more."""
        for word in subject(self._pins[place].text):
            self._with_word[word].pop(place, None)
        self._with_frame[_frame(self._pins[place].text)].pop(place, None)

    def near(self, words: frozenset[str]) -> list[Pin]:
        """What is compared with a sentence of these words, in the order in which it was said."""
        near: set[int] = set()
        for word in sorted(words, key=lambda word: (len(self._with_word[word]), word)):
            newest = reversed(self._with_word[word])
            near.update(islice(newest, _NEIGHBOURS - len(near)))
        return [self._pins[place] for place in sorted(near)]

    def framed(self, frame: str) -> list[Pin]:
        """What says the same with some value."""
        newest = reversed(self._with_frame[frame])
        return [self._pins[place] for place in islice(newest, _NEIGHBOURS)]

    def telling(self, words: frozenset[str]) -> frozenset[str]:
        """Those of `words` that tell what a sentence is about, because few have them."""
        return frozenset(word for word in words if len(self._with_word[word]) <= _TELLING)


def _ended(new: Pin, earlier: _Earlier) -> tuple[set[int], set[int]]:
    """Numbers of the pins that a user's new one replaces, and of those that it amends."""
    fresh, words, frame = weighty(new.text), subject(new.text), _frame(new.text)
    telling = earlier.telling(words)
    near = earlier.near(words) if cues.replaces(new.text) else []
    about = [pin for pin in near if _about(new, pin, fresh, telling)]
    same = [pin for pin in earlier.framed(frame) if _restated(new, pin)] if frame else []
    if not (about or same or (near and _given_up(new.text))):
        return set(), set()
    if not _says_something(new):  # asked last, because it is dear
        near, about, same = ([pin for pin in pins if pin.kind not in _BINDING] for pins in (near, about, same))
    replaced, amended = _replaced(new, near, about)
    replaced += same
    return {pin.number for pin in replaced}, {pin.number for pin in amended}


def by_marks(pins: Sequence[Pin], marks: Iterable[Mark], index: Index) -> tuple[list[Pin], list[str]]:
    """Applies a summariser's marks that a user's sentence bears out; on thin evidence a constraint is amended."""
    pins, idle = list(pins), []
    by_number = {pin.number: place for place, pin in enumerate(pins)}
    keys = [key(pin.text) for pin in pins]
    for mark in marks:
        sentence, at = index.meant(mark.text), by_number.get(mark.number)
        new = _newest_with(key(sentence.text), pins, keys) if sentence else None
        if at is None or new is None or not _bears_out(new, pins[at]):
            idle.append(f"P{mark.number}: {mark.text}")
        elif pins[at].replaced_by is None:
            thin = pins[at].kind is Kind.CONSTRAINT and not _close(new, pins[at])
            by = new.number
            pins[at] = replace(pins[at], amended_by=by) if thin else replace(pins[at], replaced_by=by)
    return pins, idle


def _newest_with(words: str, pins: Sequence[Pin], keys: Sequence[str]) -> Pin | None:
    """The last pin in whose key, of `keys`, these words are."""
    return next((pins[at] for at in reversed(range(len(pins))) if words in keys[at]), None)


def _replaced(new: Pin, near: Sequence[Pin], about: Sequence[Pin]) -> tuple[list[Pin], list[Pin]]:
    """Which pins a sentence with words of change replaces, and which it only amends.

    It replaces those `about` its subject and all with the same old value. A constraint may say more than the value
    that has changed, so it is only amended when little else speaks for it.
    """
    fresh, words = weighty(new.text), subject(new.text)
    gone = {value for pin in about for value in weighty(pin.text)} - fresh
    gone |= _given_up(new.text)
    seen = {pin.number for pin in about}
    others = [pin for pin in near if pin.number not in seen and gone & weighty(pin.text)]
    ended = [*about, *(pin for pin in others if words & subject(pin.text))]
    amended = [pin for pin in ended if pin.kind is Kind.CONSTRAINT and not _close(new, pin)]
    kept = {pin.number for pin in amended}
    return [pin for pin in ended if pin.number not in kept], amended


def _about(new: Pin, pin: Pin, fresh: frozenset[str], telling: frozenset[str]) -> bool:
    """Whether a sentence that tells of a change is about what an earlier one said.

    One value takes the place of another of its sort, or, without values, one entry that of another of its kind.
    """
    close, had = _close(new, pin), weighty(pin.text)
    common = subject(new.text) & subject(pin.text)
    if not (close or common & telling or (common and had & fresh)):  # it may name the old value
        return False
    if had or fresh:
        changed = bool(had) and bool(fresh - had or _given_up(new.text))  # the old value may be named as well
        return changed and (close or bool(sorts(new.text) & sorts(pin.text)))
    enough = 2 if pin.kind in (Kind.DECISION, Kind.PREFERENCE) else 3
    return close and pin.kind is new.kind and len(subject(new.text) & subject(pin.text)) >= enough


def _close(new: Pin, pin: Pin) -> bool:
    """Whether two sentences have most of their subject in common."""
    words, others = subject(new.text), subject(pin.text)
    common, shorter = len(words & others), min(len(words), len(others))
    return common >= max(_SAME_SUBJECT * shorter, min(2, shorter), 1)


def _restated(new: Pin, pin: Pin) -> bool:
    """Whether a user says the same again with another value: `The cap is 201 EUR` and then `The cap is 956 EUR`."""
    before, after = _frame(pin.text), _frame(new.text)
    return pin.role == "user" and bool(after) and before == after and weighty(pin.text) != weighty(new.text)


@lru_cache(maxsize=4096)
def _frame(text: str) -> str:
    """The words around the one value that a sentence ascribes to something; empty when it does something else."""
    found = [value for value in values.found(text) if value.weighty] if values.marked(text) else []
    if len(found) != 1:
        return ""
    before, _, after = text.partition(found[0].text)
    return f"{key(before)} {values.sort(found[0])} {key(after)}" if _ASCRIBES.search(before) else ""


def _given_up(text: str) -> frozenset[str]:
    """Values that the sentence itself puts behind a word of change: `8443 instead of 8080`."""
    return frozenset(value for word in _GIVEN_UP.findall(text) for value in weighty(word))


def _may_end(new: Pin, old: Pin) -> bool:
    """A request that says nothing ends no rule and no decision, whatever words it has in common with them."""
    return old.kind not in _BINDING or _says_something(new)


def _says_something(pin: Pin) -> bool:
    return cues.kind_of(Sentence(pin.text, pin.source, pin.role)) is not None


def _bears_out(new: Pin, old: Pin) -> bool:
    """Whether a user's later sentence has the subject of what it is said to supersede, and tells of a change in it."""
    if not _may_end(new, old):
        return False
    if new.role != "user" or new.number <= old.number or not subject(new.text) & subject(old.text):
        return False
    changed = bool(sorts(new.text) & sorts(old.text)) and weighty(new.text) != weighty(old.text)
    return changed or cues.replaces(new.text) or old.kind is not Kind.CONSTRAINT
