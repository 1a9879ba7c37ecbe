"""Which pins hold no more: what a user has replaced in so many words, or a summariser marked as replaced. Pure.

Only what was explicitly replaced goes. On thin evidence a constraint is amended instead: it stays, and the later
sentence is shown with it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from service.summarising import cues, values
from service.summarising.likeness import Index, key, sorts, subject, weighty
from service.summarising.memory import Kind, Pin
from service.summarising.sentences import Sentence

_SAME_SUBJECT = 0.5  # of the words of the shorter of two sentences
_TELLING = 2  # earlier pins with a word, up to which it tells what a sentence is about
_ASCRIBES = re.compile(
    r"(?:\b(?:is|are|be|at|to|on|by|costs?|ist|sind|am|est|sont|es|son|è|é)|[:=])\W+(?:\w+\W+){0,2}$", re.I
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
    for place in range(old, len(pins)):
        new = pins[place]
        if new.role == "user":
            holding = [pin for pin in pins[:place] if pin.replaced_by is None and _may_end(new, pin)]
            replaced, amended = _replaced(new, holding) if cues.replaces(new.text) else ([], [])
            replaced += [pin for pin in holding if pin not in replaced and _restated(new, pin)]
            for earlier in replaced:
                pins[pins.index(earlier)] = replace(earlier, replaced_by=new.number)
            for earlier in amended:
                pins[pins.index(earlier)] = replace(earlier, amended_by=new.number)
    return pins


def by_marks(pins: Sequence[Pin], marks: Iterable[Mark], index: Index) -> tuple[list[Pin], list[str]]:
    """Applies a summariser's marks that a user's sentence bears out; on thin evidence a constraint is amended."""
    pins, idle = list(pins), []
    by_number = {pin.number: place for place, pin in enumerate(pins)}
    for mark in marks:
        sentence, at = index.meant(mark.text), by_number.get(mark.number)
        new = next((pin for pin in reversed(pins) if sentence and key(sentence.text) in key(pin.text)), None)
        if at is None or new is None or not _bears_out(new, pins[at]):
            idle.append(f"P{mark.number}: {mark.text}")
        elif pins[at].replaced_by is None:
            thin = pins[at].kind is Kind.CONSTRAINT and not _close(new, pins[at])
            by = new.number
            pins[at] = replace(pins[at], amended_by=by) if thin else replace(pins[at], replaced_by=by)
    return pins, idle


def _replaced(new: Pin, earlier: Sequence[Pin]) -> tuple[list[Pin], list[Pin]]:
    """Which pins a sentence with words of change replaces, and which it only amends.

    It replaces those about its subject and all with the same old value. A constraint may say more than the value that
    has changed, so it is only amended when little else speaks for it.
    """
    fresh, words = weighty(new.text), subject(new.text)
    common = Counter(word for pin in earlier for word in words & subject(pin.text))
    telling = frozenset(word for word, count in common.items() if count <= _TELLING)
    about = [pin for pin in earlier if _about(new, pin, fresh, telling)]
    gone = {value for pin in about for value in weighty(pin.text)} - fresh
    gone |= _given_up(new.text)
    about += [pin for pin in earlier if pin not in about and gone & weighty(pin.text) and words & subject(pin.text)]
    amended = [pin for pin in about if pin.kind is Kind.CONSTRAINT and not _close(new, pin)]
    return [pin for pin in about if pin not in amended], amended


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
    found = re.findall(
        r"\b(?:instead of|rather than|not|no longer|from|was|forget|drop|scrap|replaces?|statt|au lieu de|en lugar de)"
        r"\s+"
        r"(?:\w+\s+){0,2}?(\S*\d\S*)",
        text,
        re.IGNORECASE,
    )
    return frozenset(value for word in found for value in weighty(word))


def _may_end(new: Pin, old: Pin) -> bool:
    """A request that says nothing ends no rule and no decision, whatever words it has in common with them."""
    binding = old.kind in (Kind.CONSTRAINT, Kind.DECISION)
    return not binding or cues.kind_of(Sentence(new.text, new.source, new.role)) is not None


def _bears_out(new: Pin, old: Pin) -> bool:
    """Whether a user's later sentence has the subject of what it is said to supersede, and tells of a change in it."""
    if not _may_end(new, old):
        return False
    if new.role != "user" or new.number <= old.number or not subject(new.text) & subject(old.text):
        return False
    changed = bool(sorts(new.text) & sorts(old.text)) and weighty(new.text) != weighty(old.text)
    return changed or cues.replaces(new.text) or old.kind is not Kind.CONSTRAINT
