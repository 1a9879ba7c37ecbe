"""The pinned sections: what is carried word for word, and what goes when room is short.

A summariser's answer only points at sentences; the words of a pin are always those of the conversation. Rules propose
too, so that what a summariser forgets is kept all the same. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from service import tokens
from service.summarising import cues, superseding
from service.summarising.likeness import Index, key
from service.summarising.memory import Kind, Pin
from service.summarising.sentences import LONGEST, Sentence
from service.summarising.superseding import Mark
from service.summarising.suspicion import subversive, suspicious

_RANKS = list(Kind)
_BINDING = (Kind.CONSTRAINT, Kind.DECISION, Kind.PREFERENCE)
_REMEMBERED = 64  # superseded pins that are kept, so that their values can be told from those that hold
_ANAPHORA = re.compile(
    r"(?:it|that|this|these|those|they|them|same|both|neither|otherwise|also|and|but|or|so|never exceed|"
    r"das|dies\w*|es|sie|und|aber|ça|cela|eso|esto)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a summariser wants pinned: its own words, and the section that it put them into."""

    text: str
    kinds: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """Old pins and new ones, whatever room there is, and what nothing bears out."""

    pins: tuple[Pin, ...]
    unfounded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extended:
    """The new pins. `unfounded` are proposals and marks that nothing bears out; `left_out` found no room."""

    pins: tuple[Pin, ...]
    unfounded: tuple[str, ...] = ()
    left_out: int = 0


def extend(
    pins: Sequence[Pin],
    said: Sequence[Sentence],
    complete: Sequence[Sentence],
    proposals: Iterable[Proposal],
    marks: Iterable[Mark],
    limit: int,
) -> Extended:
    """`pins` and what the newly covered messages add to them, within `limit` tokens."""
    return bounded(merge(pins, said, complete, proposals, marks), limit)


def merge(
    pins: Sequence[Pin],
    said: Sequence[Sentence],
    complete: Sequence[Sentence],
    proposals: Iterable[Proposal],
    marks: Iterable[Mark],
) -> Merged:
    """`pins` and what the newly covered messages add to them.

    Args:
        pins: of the checkpoint that this one grows from.
        said: own sentences of all steps that were read, wholly or in part; proposals may mean any of them.
        complete: those of the steps that are covered now, and come with no earlier or later call; rules look at these.
        proposals: the summariser's.
        marks: the summariser's.
    """
    index = Index(said)
    found, unfounded = _meant(proposals, index)
    merged = _numbered(pins, [*_by_rule(complete), *found])
    merged = superseding.by_rule(merged, len(pins))
    merged, idle = superseding.by_marks(merged, marks, index)
    return Merged(tuple(merged), (*unfounded, *idle))


def bounded(merged: Merged, limit: int) -> Extended:
    """The pins that `limit` tokens have room for."""
    kept = _bounded(merged.pins, limit)
    lost = sum(pin.replaced_by is None for pin in merged.pins) - sum(pin.replaced_by is None for pin in kept)
    return Extended(kept, merged.unfounded, lost)


def shown(pins: Iterable[Pin]) -> Iterator[Pin]:
    """Those that hold."""
    return (pin for pin in pins if pin.replaced_by is None)


def line(pin: Pin, pins: Iterable[Pin]) -> str:
    """What a summary shows of a pin: its words, and those of the later one that amends it."""
    return pin.text if pin.amended_by is None else _line(pin, _holders(pins))


def lines(pins: Sequence[Pin]) -> list[tuple[Pin, str]]:
    """The pins that hold, each with its `line`."""
    holders = _holders(pins)
    return [(pin, _line(pin, holders)) for pin in shown(pins)]


def _line(pin: Pin, holders: Mapping[int, Pin]) -> str:
    later = _amendment(pin, holders)
    return f"{pin.text} (later: {later.text})" if later else pin.text


def _amendment(pin: Pin, holders: Mapping[int, Pin]) -> Pin | None:
    """The pin that amends this one, or what has superseded that since."""
    return None if pin.amended_by is None else holders.get(pin.amended_by)


def _holders(pins: Iterable[Pin]) -> dict[int, Pin]:
    """For each number the pin that holds in its place: the pin itself, or what has superseded it in the end."""
    holders: dict[int, Pin] = {}
    for pin in sorted(pins, key=lambda pin: pin.number, reverse=True):
        if not pin.replaced_by:
            holders[pin.number] = pin
        elif pin.replaced_by in holders:  # a later one, so it is there already
            holders[pin.number] = holders[pin.replaced_by]
    return holders


def _by_rule(sentences: Sequence[Sentence]) -> list[tuple[Kind, Sentence]]:
    found: list[tuple[Kind, Sentence]] = []
    asked: Sentence | None = None
    before: Sentence | None = None
    for sentence in sentences:
        if sentence.role == "assistant" and sentence.text.endswith(("?", "？")):
            asked = sentence
        if (
            asked
            and cues.confirms(sentence)
            and _fits(pair := f"{asked.text} → {sentence.text}")
            and not subversive(pair)
        ):
            found.append((Kind.DECISION, replace(sentence, text=pair)))
        elif (kind := cues.kind_of(sentence)) and not _dangerous(sentence):
            alone = bool(found) and found[-1][1] is before and found[-1][0] is Kind.VALUE  # it says enough by itself
            whole = _with_subject(sentence, before) if kind in _BINDING and not alone else sentence
            if found and found[-1][1] is before and whole is not sentence:  # which it has in it now
                kind = min(kind, found.pop()[0], key=_RANKS.index)
            found.append((kind, whole))
        asked = None if sentence.role == "user" else asked
        before = sentence
    return found


def _dangerous(sentence: Sentence) -> bool:
    """Nobody's order may come in through a sentence that imitates our structure, or orders against the rules."""
    return subversive(sentence.text) if sentence.role == "user" else suspicious(sentence.text)


def _with_subject(sentence: Sentence, before: Sentence | None) -> Sentence:
    """A sentence that begins with a pronoun says nothing without the one before it."""
    near = before and (before.source, before.role) == (sentence.source, sentence.role) and not _dangerous(before)
    told = before and len(before.text.split()) > 3 and before.text[-1] not in "?？"
    if before and near and told and _ANAPHORA.match(sentence.text) and _fits(whole := f"{before.text} {sentence.text}"):
        return replace(sentence, text=whole)
    return sentence


def _fits(text: str) -> bool:
    return len(text) <= LONGEST


def _meant(proposals: Iterable[Proposal], index: Index) -> tuple[list[tuple[Kind, Sentence]], list[str]]:
    found, unfounded = [], []
    for proposal in proposals:
        sentence = index.meant(proposal.text)
        kind = _kind(proposal, sentence) if sentence else None
        if sentence and kind:
            found.append((kind, sentence))
        else:
            unfounded.append(proposal.text)
    return found, unfounded


def _kind(proposal: Proposal, sentence: Sentence) -> Kind | None:
    """The rule's opinion when the section allows it; an assistant's sentence is never more than a value or a file."""
    if _dangerous(sentence):
        return None
    if sentence.role != "user":
        return Kind.FILE if Kind.FILE in proposal.kinds else Kind.VALUE
    if sentence.own != sentence.text and sentence.own.endswith(("?", "？")):
        return None  # who asks about a quotation orders nothing
    by_rule = cues.kind_of(sentence)
    if by_rule is None and sentence.text.endswith(("?", "？")):  # it may ask for something, but it settles nothing
        return Kind.PREFERENCE if Kind.PREFERENCE in proposal.kinds else None
    return by_rule if by_rule in proposal.kinds else proposal.kinds[0]


def _numbered(pins: Sequence[Pin], new: Iterable[tuple[Kind, Sentence]]) -> list[Pin]:
    """Old pins as they are, and new ones that are not there yet, with the next numbers."""
    merged = list(pins)
    places = {key(pin.text): place for place, pin in enumerate(merged)}
    # A pin that found no room may still be named by others: its number is not given to another sentence.
    number = max((one or 0 for pin in pins for one in (pin.number, pin.replaced_by, pin.amended_by)), default=0)
    for kind, sentence in new:
        words = key(sentence.text)
        known = merged[places[words]] if words in places else None
        if known and known.replaced_by is None:  # said before, and it still holds
            kind = min(kind, known.kind, key=_RANKS.index)
            by_user = known if sentence.role != "user" else replace(known, role="user", source=sentence.source)
            merged[places[words]] = replace(by_user if known.role != "user" else known, kind=kind)
            continue
        number += 1
        places[words] = len(merged)
        merged.append(Pin(number, kind, sentence.text, sentence.source, sentence.role))
    return merged


def _bounded(pins: Sequence[Pin], limit: int) -> tuple[Pin, ...]:
    """What is worth least goes first; of equals the oldest, but for goals and constraints, where it is the newest."""
    behind = [pin for pin in pins if pin.replaced_by is not None][-_REMEMBERED:]
    holders = _holders(pins)
    holding = list(shown(pins))
    costs = {pin.number: _cost(_line(pin, holders)) for pin in holding}
    total = sum(costs.values())
    worth = {pin.number: _worth(pin) for pin in holding}
    for pin in holding:
        if later := _amendment(pin, holders):  # without it, the other would tell what holds no more
            worth[later.number] = max(worth[later.number], worth[pin.number])
    gone: set[int] = set()
    for pin in sorted(holding, key=lambda pin: worth[pin.number]):
        if total <= limit:
            break
        gone.add(pin.number)
        total -= costs[pin.number]
    kept = {pin.number for pin in behind} | {pin.number for pin in holding} - gone
    return tuple(pin for pin in pins if pin.number in kept)


def size(pins: Sequence[Pin]) -> int:
    """Tokens of the lines that are shown."""
    return sum(_cost(text) for _, text in lines(pins))


def _cost(text: str) -> int:
    return tokens.count(text) + 3


def _worth(pin: Pin) -> tuple[int, int]:
    lasting = pin.kind in (Kind.CONSTRAINT, Kind.GOAL)
    return cues.weight(pin.kind, pin.text, pin.role), -pin.number if lasting else pin.number
