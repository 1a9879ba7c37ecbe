"""The pinned sections: what is carried word for word, what is superseded, and what goes when room is short.

A summariser's answer only points at sentences; the words of a pin are always those of the conversation. Rules propose
too, so that what a summariser forgets is kept all the same. Pure.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from service import tokens
from service.summarising import cues, values
from service.summarising.memory import Kind, Pin
from service.summarising.sentences import LONGEST, Sentence, split
from service.summarising.suspicion import subversive, suspicious

_MEANT = 0.6  # of a proposal's words that a sentence has to have, to be what it means
_SAME_SUBJECT = 0.5  # of the words of the shorter of two sentences
_RANKS = list(Kind)
_REMEMBERED = 64  # superseded pins that are kept, so that their values can be told from those that hold
_TELLING = 2  # earlier pins with a word, up to which it tells what a sentence is about
_ANAPHORA = re.compile(
    r"(?:it|that|this|these|those|they|them|same|both|neither|otherwise|also|and|but|or|so|never exceed|"
    r"das|dies\w*|es|sie|und|aber|ça|cela|eso|esto)\b",
    re.IGNORECASE,
)
_STOP_WORDS = """
a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it its
just let me more my no not now of ok on only or our please she should so some than thanks that the their them then
there they this to too up us use was we were what when which who will with would yes you your instead actually all
also any about der die das den dem des ein eine einen und oder aber ist sind war nicht nur für mit von zu im auf es
ich wir du sie bitte jetzt statt auch le la les un une et ou est sont pas pour avec de en je nous vous el los las y
o son para con por il lo gli e di che per non si
"""
# What is counted is no subject: a laptop for 500 EUR has nothing to do with a budget of 500 EUR.
_COUNTED = "eur euro euros usd dollar dollars gbp pound pounds percent prozent kg km cm mm kb mb gb tb kwh ms"
_STOP = frozenset((*_STOP_WORDS.split(), *_COUNTED.split()))
_ASCRIBES = re.compile(
    r"(?:\b(?:is|are|be|at|to|on|by|costs?|ist|sind|am|est|sont|es|son|è|é)|[:=])\W+(?:\w+\W+){0,2}$", re.I
)
_WORD = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a summariser wants pinned: its own words, and the section that it put them into."""

    text: str
    kinds: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A summariser's word that pin `number` is superseded by a sentence that means `text`."""

    number: int
    text: str


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
    """`pins` and what the newly covered messages add to them.

    Args:
        pins: of the checkpoint that this one grows from.
        said: own sentences of all steps that were read, wholly or in part; proposals may mean any of them.
        complete: those of the steps that are covered now, and come with no earlier or later call; rules look at these.
        proposals: the summariser's.
        marks: the summariser's.
        limit: bound on the pins that are shown, in tokens.
    """
    index = _Index(said)
    found, unfounded = _meant(proposals, index)
    merged = _numbered(pins, [*_by_rule(complete), *found])
    merged = _superseded_by_rule(merged, len(pins))
    merged, idle = _superseded_by_marks(merged, marks, index)
    kept = _bounded(merged, limit)
    lost = sum(pin.replaced_by is None for pin in merged) - sum(pin.replaced_by is None for pin in kept)
    return Extended(kept, (*unfounded, *idle), lost)


def shown(pins: Iterable[Pin]) -> Iterator[Pin]:
    """Those that hold."""
    return (pin for pin in pins if pin.replaced_by is None)


def line(pin: Pin, pins: Iterable[Pin]) -> str:
    """What a summary shows of a pin: its words, and those of the later one that amends it."""
    later = next((one for one in pins if one.number == pin.amended_by), None) if pin.amended_by else None
    return f"{pin.text} (later: {later.text})" if later else pin.text


def stale(pins: Sequence[Pin]) -> dict[str, frozenset[str]]:
    """The values that hold no more, and for each the values that took its place."""
    by_number = {pin.number: pin for pin in pins}
    holding = {value for pin in shown(pins) for value in _values(pin.text)}
    out: dict[str, frozenset[str]] = {}
    for pin in pins:
        if pin.replaced_by is not None and (new := by_number.get(pin.replaced_by)):
            given_up = _given_up(new.text)
            fresh = _values(new.text) - given_up
            own = _values(pin.text) if pin.role == "user" else frozenset()  # an assistant's has others beside it
            for value in (own | given_up) - fresh - (holding - given_up):
                out[value] = fresh
    return out


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
            whole = _with_subject(sentence, before)
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


def _meant(proposals: Iterable[Proposal], index: "_Index") -> tuple[list[tuple[Kind, Sentence]], list[str]]:
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
    return by_rule if by_rule in proposal.kinds else proposal.kinds[0]


def _numbered(pins: Sequence[Pin], new: Iterable[tuple[Kind, Sentence]]) -> list[Pin]:
    """Old pins as they are, and new ones that are not there yet, with the next numbers."""
    merged = list(pins)
    places = {_key(pin.text): place for place, pin in enumerate(merged)}
    number = max((pin.number for pin in pins), default=0)
    for kind, sentence in new:
        key = _key(sentence.text)
        known = merged[places[key]] if key in places else None
        if known and known.replaced_by is None:  # said before, and it still holds
            kind = min(kind, known.kind, key=_RANKS.index)
            by_user = known if sentence.role != "user" else replace(known, role="user", source=sentence.source)
            merged[places[key]] = replace(by_user if known.role != "user" else known, kind=kind)
            continue
        number += 1
        places[key] = len(merged)
        merged.append(Pin(number, kind, sentence.text, sentence.source, sentence.role))
    return merged


def _superseded_by_rule(pins: Sequence[Pin], old: int) -> list[Pin]:
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


def _replaced(new: Pin, earlier: Sequence[Pin]) -> tuple[list[Pin], list[Pin]]:
    """Which pins a sentence with words of change replaces, and which it only amends.

    It replaces those about its subject and all with the same old value. A constraint may say more than the value that
    has changed, so it is only amended when little else speaks for it.
    """
    fresh, words = _values(new.text), _subject(new.text)
    common = Counter(word for pin in earlier for word in words & _subject(pin.text))
    telling = frozenset(word for word, count in common.items() if count <= _TELLING)
    about = [pin for pin in earlier if _about(new, pin, fresh, telling)]
    gone = {value for pin in about for value in _values(pin.text)} - fresh
    gone |= _given_up(new.text)
    about += [pin for pin in earlier if pin not in about and gone & _values(pin.text) and words & _subject(pin.text)]
    amended = [pin for pin in about if pin.kind is Kind.CONSTRAINT and not _close(new, pin)]
    return [pin for pin in about if pin not in amended], amended


def _about(new: Pin, pin: Pin, fresh: frozenset[str], telling: frozenset[str]) -> bool:
    """Whether a sentence that tells of a change is about what an earlier one said.

    One value takes the place of another of its sort, or, without values, one entry that of another of its kind.
    """
    close = _close(new, pin)
    if not close and not _subject(new.text) & _subject(pin.text) & telling:
        return False
    had = _values(pin.text)
    if had or fresh:
        changed = bool(had - fresh) and bool(fresh - had or _given_up(new.text))
        return changed and (close or bool(_sorts(new.text) & _sorts(pin.text)))
    return close and pin.kind is new.kind


def _close(new: Pin, pin: Pin) -> bool:
    """Whether two sentences have most of their subject in common."""
    words, subject = _subject(new.text), _subject(pin.text)
    common, shorter = len(words & subject), min(len(words), len(subject))
    return common >= max(_SAME_SUBJECT * shorter, min(2, shorter), 1)


def _restated(new: Pin, pin: Pin) -> bool:
    """Whether a user says the same again with another value: `The cap is 201 EUR` and then `The cap is 956 EUR`."""
    before, after = _frame(pin.text), _frame(new.text)
    return pin.role == "user" and bool(after) and before == after and _values(pin.text) != _values(new.text)


@lru_cache(maxsize=4096)
def _frame(text: str) -> str:
    """The words around the one value that a sentence ascribes to something; empty when it does something else."""
    found = [value for value in values.found(text) if value.weighty] if values.marked(text) else []
    if len(found) != 1:
        return ""
    before, _, after = text.partition(found[0].text)
    return f"{_key(before)} {values.sort(found[0])} {_key(after)}" if _ASCRIBES.search(before) else ""


def _given_up(text: str) -> frozenset[str]:
    """Values that the sentence itself puts behind a word of change: `8443 instead of 8080`."""
    found = re.findall(
        r"\b(?:instead of|rather than|not|no longer|from|was|forget|drop|scrap|replaces?|statt|au lieu de|en lugar de)"
        r"\s+"
        r"(?:\w+\s+){0,2}?(\S*\d\S*)",
        text,
        re.IGNORECASE,
    )
    return frozenset(value for word in found for value in _values(word))


def _superseded_by_marks(pins: Sequence[Pin], marks: Iterable[Mark], index: "_Index") -> tuple[list[Pin], list[str]]:
    """Applies a summariser's marks that a user's sentence bears out."""
    pins, idle = list(pins), []
    by_number = {pin.number: place for place, pin in enumerate(pins)}
    for mark in marks:
        sentence, at = index.meant(mark.text), by_number.get(mark.number)
        new = next((pin for pin in reversed(pins) if sentence and _key(sentence.text) in _key(pin.text)), None)
        if at is None or new is None or not _bears_out(new, pins[at]):
            idle.append(f"P{mark.number}: {mark.text}")
        elif pins[at].replaced_by is None:
            pins[at] = replace(pins[at], replaced_by=new.number)
    return pins, idle


def _may_end(new: Pin, old: Pin) -> bool:
    """A request that says nothing ends no rule and no decision, whatever words it has in common with them."""
    binding = old.kind in (Kind.CONSTRAINT, Kind.DECISION)
    return not binding or cues.kind_of(Sentence(new.text, new.source, new.role)) is not None


def _bears_out(new: Pin, old: Pin) -> bool:
    """Whether a user's later sentence has the subject of what it is said to supersede, and tells of a change in it."""
    if not _may_end(new, old):
        return False
    if new.role != "user" or new.number <= old.number or not _subject(new.text) & _subject(old.text):
        return False
    changed = bool(_sorts(new.text) & _sorts(old.text)) and _values(new.text) != _values(old.text)
    return changed or cues.replaces(new.text) or old.kind is not Kind.CONSTRAINT


def _bounded(pins: Sequence[Pin], limit: int) -> tuple[Pin, ...]:
    """What is worth least goes first; of equals the oldest, but for goals and constraints, where it is the newest."""
    behind = [pin for pin in pins if pin.replaced_by is not None][-_REMEMBERED:]
    holding = list(shown(pins))
    costs = {pin.number: tokens.count(line(pin, pins)) + 3 for pin in holding}
    total = sum(costs.values())
    gone: set[int] = set()
    for pin in sorted(holding, key=_worth):
        if total <= limit:
            break
        gone.add(pin.number)
        total -= costs[pin.number]
    kept = {pin.number for pin in behind} | {pin.number for pin in holding} - gone
    return tuple(pin for pin in pins if pin.number in kept)


def size(pins: Sequence[Pin]) -> int:
    """Tokens of the lines that are shown."""
    return sum(tokens.count(line(pin, pins)) + 3 for pin in shown(pins))


def _worth(pin: Pin) -> tuple[int, int]:
    lasting = pin.kind in (Kind.CONSTRAINT, Kind.GOAL)
    return cues.weight(pin.kind, pin.text, pin.role), -pin.number if lasting else pin.number


@lru_cache(maxsize=4096)
def _key(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


@lru_cache(maxsize=4096)
def _values(text: str) -> frozenset[str]:
    """The weighty values of a text, in one spelling."""
    found = values.found(text) if values.marked(text) else []
    return frozenset(values.spelling(value) for value in found if value.weighty)


@lru_cache(maxsize=4096)
def _sorts(text: str) -> frozenset[str]:
    """Of which sorts the values of a text are: only a date takes the place of a date."""
    found = values.found(text) if values.marked(text) else []
    return frozenset(values.sort(value) for value in found if value.weighty)


@lru_cache(maxsize=4096)
def _subject(text: str) -> frozenset[str]:
    """What a sentence is about: its words without values, articles and the like, and without endings."""
    words = (word for word in _WORD.findall(text.casefold()) if not any(letter.isdigit() for letter in word))
    return frozenset(_stem(word) for word in words if word not in _STOP and len(word) > 1 and not cues.replaces(word))


def _stem(word: str) -> str:
    return re.sub(r"(?:ings?|ed|es|s|en|er|e)$", "", word) if len(word) > 4 else word


class _Index:
    """Finds the sentence that a summariser's words mean."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self._sentences = sentences
        self._with: Mapping[str, list[int]] = defaultdict(list)
        for place, sentence in enumerate(sentences):
            for word in _words(sentence.text):
                self._with[word].append(place)

    def meant(self, text: str) -> Sentence | None:
        """What a proposal means: one sentence, or the first that is found when it copies several."""
        return self._best(text) or next(filter(None, map(self._best, split(text))), None)

    def _best(self, text: str) -> Sentence | None:
        """The sentence with most of the words of `text` and all of its values; a user's, and the newest, of equals."""
        words = _words(text)
        hits = Counter(place for word in words for place in self._with.get(word, ()))
        asked = _values(text)
        able = [
            (count, self._sentences[place].role == "user", place)
            for place, count in hits.items()
            if count >= _MEANT * len(words) and asked <= _values(self._sentences[place].text)
            if words & _words(self._sentences[place].own)  # and not of a quotation alone
        ]
        return self._sentences[max(able)[2]] if able else None


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    words = frozenset(_WORD.findall(text.casefold()))
    return words - _STOP or words
