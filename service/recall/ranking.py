"""Which parts of a path answer a question best: BM25, in any script. Pure.

What users say is short and what answers say is long, so each is compared among its own, and the two
are fused by rank. A short message is compared with the short ones beside it, by which it is
understood; a block of a long answer or of a result is compared by itself. Words in one sentence
count more than the same words far apart, exact values count double, and of equals the newest comes
first.

Okapi BM25 as in Robertson and Zaragoza (2009), "The Probabilistic Relevance Framework"; why no
library does it, see docs/adr/0013.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from math import log
from operator import itemgetter

from service.recall import words
from service.recall.parts import SearchedPart

_K1, _B = 1.2, 0.75
_EXACT = 2.0  # weight of an exact value
_SENTENCE = 0.5  # of what the words of the best sentence are worth, which is added
_SHORT = 100  # words of two messages that are compared as one
_LONGEST = 64  # words of a question that are looked for
_VARIANTS = 40  # words of a hit by which its best place is found


@dataclass(frozen=True, slots=True)
class Hit:
    """A part that was found.

    Attributes:
        message: its place in the path, from 0.
        part: what was found of it.
        beside: the places of the messages before and behind it, if something was said in it.
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
    told = [list(map(str.split, part.words.split("\n"))) for _, part in places]
    terms = _terms(told, question, language)
    own = [_counted(sentences, terms.of) for sentences in told]
    alone = _scores(dict(enumerate(own)), terms.weights)
    windows = _windows(places, own)
    ranks = _ranks(places, [_joined(window, own) for window in windows], terms.weights)
    # Of a user's and another with the same rank the one that answers better by itself is first.
    order = sorted(ranks, key=lambda at: (ranks[at], -alone.get(at, 0), -at))
    best = _hits((windows[at] for at in order), places, alone, terms.told)
    return list(islice(best, most))


def _ranks(
    places: Sequence[tuple[int, SearchedPart]],
    texts: Sequence[_RankedText],
    weights: Sequence[float],
) -> dict[int, int]:
    """The rank of each text that answers, among users' messages or among all others."""
    users = {at: text for at, text in enumerate(texts) if places[at][1].by_user}
    others = {at: text for at, text in enumerate(texts) if at not in users}
    ranks = dict[int, int]()
    for scores in (_scores(users, weights), _scores(others, weights)):
        best = sorted((-score, -at) for at, score in scores.items())
        ranks |= {-at: rank for rank, (_, at) in enumerate(best)}
    return ranks


def _hits(
    order: Iterable[tuple[int, ...]],
    places: Sequence[tuple[int, SearchedPart]],
    alone: Mapping[int, float],
    told: tuple[str, ...],
) -> Iterator[Hit]:
    """Of each window the part that answers best by itself, unless its middle is shown already."""
    said = {message for message, part in places if not part.call}
    shown = set[int]()
    for window in order:
        middle, part = places[window[0]]
        if part.call:
            yield Hit(middle, part, (), told)
        elif middle not in shown:
            new = [at for at in window if at in alone and places[at][0] not in shown]
            if new:
                message, part = places[max(new, key=alone.__getitem__)]
                seen = said.intersection(range(middle - 1, middle + 2))
                shown |= seen
                yield Hit(message, part, tuple(sorted(seen - {message})), told)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of a question: by the words of the chat that stand for them, and their weights."""

    of: Mapping[str, int]
    weights: Sequence[float]

    @property
    def told(self) -> tuple[str, ...]:
        """The words of the chat that were asked for, the rarest kinds first."""
        found = sorted(self.of, key=lambda word: (-self.weights[self.of[word]], -len(word)))
        return tuple(found[:_VARIANTS])


def _terms(told: Sequence[list[list[str]]], question: str, language: str | None) -> _Terms:
    asked = list(dict.fromkeys(words.words(question)))[:_LONGEST]
    number_of = dict[str, int]()
    for number, word in enumerate(asked):
        for key in words.asked(word, language):
            number_of.setdefault(key, number)
    vocabulary = set(chain.from_iterable(chain.from_iterable(told)))
    # Endings differ, beginnings hardly do.
    begins = set(map(itemgetter(0), number_of))
    likely = [word for word in vocabulary if word[0] in begins or not word.isascii()]
    keys = words.stems(likely, language)
    of = {word: number_of[key] for word, key in keys.items() if key in number_of}
    return _Terms(of, [_EXACT if words.exact(word) else 1.0 for word in asked])


def _counted(sentences: list[list[str]], of: Mapping[str, int]) -> _RankedText:
    found = [[of[word] for word in sentence if word in of] for sentence in sentences]
    counts = dict[int, int]()
    for term in chain.from_iterable(found):
        counts[term] = counts.get(term, 0) + 1
    several = [set(terms) for terms in found if len(terms) > 1]
    return _RankedText(counts, sum(map(len, sentences)), several)


def _windows(
    places: Sequence[tuple[int, SearchedPart]], own: Sequence[_RankedText]
) -> list[tuple[int, ...]]:
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
