"""Which parts of a path answer a question best: BM25, in any script. Pure.

What was said is compared in windows of three messages, because a short message is understood with
those around it; a window that is found is shown whole, by the message that answers best by itself.
A block of a result is compared by itself. Exact values count double, and of equals the newest comes
first.

Okapi BM25 as in Robertson and Zaragoza (2009), "The Probabilistic Relevance Framework". A library
would bring NumPy and an index that is built for each question: see docs/adr/0013.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from math import log

from service.recall import words
from service.recall.parts import SearchedPart

_K1, _B = 1.2, 0.75
_EXACT = 2.0  # weight of an exact value
_LONGEST = 64  # words of a question that are looked for
_NONE = Counter[int]()
_VARIANTS = 40  # words of a hit by which its best place is found


@dataclass(frozen=True, slots=True)
class Hit:
    """A part that was found.

    Attributes:
        message: its place in the path, from 0.
        part: what was found of it.
        beside: the places of the other messages of the window.
        words: words of the chat that the question asked for, as they stand there.
    """

    message: int
    part: SearchedPart
    beside: tuple[int, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _RankedText:
    """Some text that is weighed: how often it has each term of the question, and its length."""

    counts: Counter[int]
    length: int


def ranked(
    path: Sequence[Sequence[SearchedPart]], question: str, language: str | None, most: int
) -> list[Hit]:
    """The best parts for a question, the best first; at most `most`.

    A window whose middle is shown with a better one is no hit of its own.

    Args:
        path: the parts of each message, from the root on.
        question: some words.
        language: of the chat, by whose endings words are compared; None compares whole words.
        most: number of hits.
    """
    terms = _terms(path, question, language)
    if not terms.of:
        return []
    places = [(message, part) for message, found in enumerate(path) for part in found]
    own = [_counted(part, terms.of) for _, part in places]
    windows = _windows(places)
    scores = _scores([_joined(window, own) for window in windows], terms.weights)
    alone = _scores(own, terms.weights)
    hits = (
        Hit(*places[best], tuple(sorted(places[at][0] for at in beside)), terms.told)
        for best, beside in _best_first(scores, alone, windows)
    )
    return list(islice(hits, most))


def _best_first(
    scores: Sequence[float], alone: Sequence[float], windows: Sequence[tuple[int, ...]]
) -> Iterator[tuple[int, list[int]]]:
    """Of each window the part that answers best by itself, and the others; the best first.

    A window has nothing new when all of it that has a word of the question is shown already.
    """
    shown = set[int]()
    for at in sorted(range(len(scores)), key=lambda at: (-scores[at], -at)):
        new = [one for one in windows[at] if one not in shown and alone[one]]
        if new and at not in shown:
            best = max(new, key=alone.__getitem__)
            shown.update(windows[at])
            yield best, [one for one in windows[at] if one != best]


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


def _terms(path: Sequence[Sequence[SearchedPart]], question: str, language: str | None) -> _Terms:
    asked = list(dict.fromkeys(words.words(question)))[:_LONGEST]
    number_of = dict[str, int]()
    for number, word in enumerate(asked):
        for key in words.asked(word, language):
            number_of.setdefault(key, number)
    vocabulary = set(chain.from_iterable(part.words for found in path for part in found))
    keys = words.stems(_likely(vocabulary, number_of), language)
    of = {word: number_of[key] for word, key in keys.items() if key in number_of}
    return _Terms(of, [_EXACT if words.exact(word) else 1.0 for word in asked])


def _likely(vocabulary: Iterable[str], keys: Iterable[str]) -> list[str]:
    """The words that may have one of these stems: endings differ, beginnings hardly do."""
    begins = {key[0] for key in keys}
    return [word for word in vocabulary if word[0] in begins or not word.isascii()]


def _counted(part: SearchedPart, of: Mapping[str, int]) -> _RankedText:
    found = [of[word] for word in part.words if word in of]
    return _RankedText(Counter(found) if found else _NONE, len(part.words))


def _windows(places: Sequence[tuple[int, SearchedPart]]) -> list[tuple[int, ...]]:
    """Of each part, where it stands and what was said in the messages beside it.

    A block of a result is alone.
    """
    windows: list[tuple[int, ...]] = [(at,) for at in range(len(places))]
    said = [at for at, (_, part) in enumerate(places) if not part.call]
    for before, after in pairwise(said):
        if places[after][0] == places[before][0] + 1:
            windows[before] += (after,)
            windows[after] += (before,)
    return windows


def _joined(window: Sequence[int], own: Sequence[_RankedText]) -> _RankedText:
    """The texts of a window as one."""
    counts = [own[at].counts for at in window if own[at].counts]
    length = sum(own[at].length for at in window)
    return _RankedText(
        sum(counts, Counter()) if len(counts) > 1 else (counts or [_NONE])[0], length
    )


def _scores(texts: Sequence[_RankedText], weights: Sequence[float]) -> list[float]:
    """BM25 of each text."""
    having = Counter(term for text in texts for term in text.counts)
    mean = sum(text.length for text in texts) / len(texts) or 1.0
    total = len(texts)
    worth = {
        term: weights[term] * log(1 + (total - count + 0.5) / (count + 0.5))
        for term, count in having.items()
    }
    return [_score(text, worth, mean) for text in texts]


def _score(text: _RankedText, worth: Mapping[int, float], mean: float) -> float:
    long = _K1 * (1 - _B + _B * text.length / mean)
    return sum(
        worth[term] * count * (_K1 + 1) / (count + long) for term, count in text.counts.items()
    )
