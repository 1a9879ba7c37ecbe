"""Which parts of a path answer a question best: Okapi BM25, in any script; see docs/adr/0013. Pure.

What users say is short and what answers say is long, so each is compared among its own; what users
said counts more, and so does what stands beside others that answer. A short message is compared
with the short ones beside it, by which it is understood; a block of a long answer or of a result is
compared by itself. Words in one sentence count more than the same words far apart, exact values
count double, and of equals the newest comes first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import log
from operator import itemgetter

from service.recall import words
from service.recall.parts import SearchedPart

_K1, _B = 1.2, 0.75
_EXACT = 2.0  # weight of an exact value
_SENTENCE = 0.5  # of what the words of the best sentence are worth, which is added
_USER = 1.5  # weight of what users said: they are fewer, so a word is less rare among them
_BESIDE = 0.2  # of what the messages before and behind are worth, which is added
_REPLY = 10  # words of a user's message that is understood by what stands before it
_SHORT = 100  # words of two messages that are compared as one
_LONGEST = 64  # words of a question that are looked for
_VARIANTS = 40  # words of a hit by which its best place is found
_Places = Sequence[tuple[int, SearchedPart]]


@dataclass(frozen=True, slots=True)
class Hit:
    """A part that was found.

    Attributes:
        message: its place in the path, from 0.
        part: what was found of it.
        beside: the places of the messages that are shown with it, if something was said in it.
        words: words of the chat that the question asked for, as they stand there.
    """

    message: int
    part: SearchedPart
    beside: tuple[int, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _RankedText:
    """Some text that is weighed: its terms are the words of the question, by their numbers."""

    counts: Mapping[int, int]
    length: int  # in words
    sentences: Sequence[set[int]]  # the terms of those that have several


def ranked(
    path: Sequence[Sequence[SearchedPart]], question: str, language: str | None, most: int
) -> list[Hit]:
    """The best parts for a question, the best first; at most `most`.

    Args:
        path: the parts of each message, from the root on.
        question: some words.
        language: of the chat, by whose endings words are compared; None compares whole words.
        most: number of hits.
    """
    places = [(message, part) for message, found in enumerate(path) for part in found]
    told = [part.words.split() for _, part in places]
    terms = _terms(told, question, language)
    own = [_counted(places[at][1].words, one, terms.of) for at, one in enumerate(told)]
    windows = _windows(places, own)
    worth = _worth(places, [_joined(window, own) for window in windows], terms.weights)
    order = sorted(worth, key=lambda at: (-worth[at], -at))
    return list(islice(_hits((windows[at] for at in order), places, own, terms.told), most))


def _worth(
    places: _Places, texts: Sequence[_RankedText], weights: Sequence[float]
) -> dict[int, float]:
    """What each text that answers is worth among its kind, and by its neighbours."""
    users = {at: text for at, text in enumerate(texts) if places[at][1].by_user}
    others = {at: text for at, text in enumerate(texts) if at not in users}
    alone = _scores(users, [_USER * weight for weight in weights]) | _scores(others, weights)
    # Of a message with several, the best comes last.
    ascending = sorted(alone, key=alone.__getitem__)
    of_message = {places[at][0]: alone[at] for at in ascending}
    worth = dict[int, float]()
    for at, score in alone.items():
        before, behind = places[at][0] - 1, places[at][0] + 1
        beside = of_message.get(before, 0.0) + of_message.get(behind, 0.0)
        worth[at] = score + _BESIDE * beside
    return worth


def _hits(
    order: Iterable[tuple[int, ...]],
    places: _Places,
    own: Sequence[_RankedText],
    told: tuple[str, ...],
) -> Iterator[Hit]:
    """Of each window the part with most of the words, unless its middle is shown already."""
    said = {message for message, part in places if not part.call}
    shown = set[int]()
    for window in order:
        middle, part = places[window[0]]
        if part.call:
            yield Hit(middle, part, (), told)
        elif middle not in shown:
            # A question is shown with its answer and what was asked then, all else in the middle.
            question = part.by_user and own[window[0]].length > _REPLY
            first = middle if question else middle - 1
            seen = said.intersection(range(first, first + 3))
            new = [at for at in window if places[at][0] in seen - shown]
            message, part = places[max(new, key=lambda at: len(own[at].counts))]
            shown |= seen
            yield Hit(message, part, tuple(sorted(seen - {message})), told)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of a question: by the words of the chat that stand for them, and their weights."""

    of: Mapping[str, int]
    weights: Sequence[float]

    @property
    def told(self) -> tuple[str, ...]:
        """The words of the chat that were asked for, values and long ones first."""
        found = sorted(self.of, key=lambda word: (-self.weights[self.of[word]], -len(word)))
        return tuple(found[:_VARIANTS])


def _terms(told: Sequence[list[str]], question: str, language: str | None) -> _Terms:
    asked = list(dict.fromkeys(words.words(question)))[:_LONGEST]
    number_of = dict[str, int]()
    for number, word in enumerate(asked):
        for key in words.asked(word, language):
            number_of.setdefault(key, number)
    vocabulary = set[str]().union(*told)
    # Endings differ, beginnings hardly do.
    begins = set(map(itemgetter(0), number_of))
    likely = [word for word in vocabulary if word[0] in begins or not word.isascii()]
    keys = words.stems(likely, language)
    of = {word: number_of[key] for word, key in keys.items() if key in number_of}
    return _Terms(of, [_EXACT if words.exact(word) else 1.0 for word in asked])


def _counted(told: str, flat: Sequence[str], of: Mapping[str, int]) -> _RankedText:
    """The terms in some words, given as they are stored and in a list."""
    counts = dict[int, int]()
    for term in [of[word] for word in flat if word in of]:
        counts[term] = counts.get(term, 0) + 1
    several: list[set[int]] = []
    if len(counts) > 1:
        sentences = ({of[word] for word in one.split() if word in of} for one in told.split("\n"))
        several = [terms for terms in sentences if len(terms) > 1]
    return _RankedText(counts, len(flat), several)


def _windows(places: _Places, own: Sequence[_RankedText]) -> list[tuple[int, ...]]:
    """Of each part, where it stands and what is short and was said beside it."""
    windows: list[tuple[int, ...]] = [(at,) for at in range(len(places))]
    said = [at for at, (_, part) in enumerate(places) if not part.call]
    for before, after in pairwise(said):
        adjacent = places[after][0] == places[before][0] + 1
        if adjacent and own[before].length + own[after].length <= _SHORT:
            windows[before] += (after,)
            windows[after] += (before,)
    return windows


def _joined(window: Sequence[int], own: Sequence[_RankedText]) -> _RankedText:
    """The texts of a window as one."""
    text = own[window[0]]
    for beside in map(own.__getitem__, window[1:]):
        counts = dict(text.counts)
        for term, count in beside.counts.items():
            counts[term] = counts.get(term, 0) + count
        sentences = [*text.sentences, *beside.sentences]
        text = _RankedText(counts, text.length + beside.length, sentences)
    return text


def _scores(texts: Mapping[int, _RankedText], weights: Sequence[float]) -> dict[int, float]:
    """BM25 of each text that has a term of the question."""
    having = Counter(term for text in texts.values() for term in text.counts)
    mean = sum(text.length for text in texts.values()) / max(len(texts), 1) or 1.0
    worth = {
        term: weights[term] * log(1 + (len(texts) - count + 0.5) / (count + 0.5))
        for term, count in having.items()
    }
    return {at: _score(text, worth, mean) for at, text in texts.items() if text.counts}


def _score(text: _RankedText, worth: Mapping[int, float], mean: float) -> float:
    long = _K1 * (1 - _B + _B * text.length / mean)
    apart = sum(
        worth[term] * count * (_K1 + 1) / (count + long) for term, count in text.counts.items()
    )
    together = max((sum(worth[term] for term in one) for one in text.sentences), default=0.0)
    return apart + _SENTENCE * together
