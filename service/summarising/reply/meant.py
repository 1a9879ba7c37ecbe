"""Which sentence of a chat a summariser's words mean, where it wrote words and no number. Pure.

A clear match is taken and nothing else: the same words, or nearly the same, with all their exact
values, and no other sentence that could be meant as well. The terms of a text are compared, so it
is one way in all scripts.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.summarising.kept.talk import told
from service.summarising.utterances import Utterance
from service.text import sentences
from service.text.terms import terms
from service.text.values import Evidence

_CANDIDATES = 512  # the newest sentences, which are compared
_LONGEST = 600  # characters of a text that are compared
# Shares of the characters of terms:
_PART = 0.74  # of the shorter of two texts, which the other has to have
_LIKE = 0.85  # of both: how near words have to be
_CLEAR = 0.05  # by so much the nearest has to be nearer than the next
_COMMON_TERMS = 3  # where words are a part of a sentence, or have one as a part
_COMMON_SHARE = 0.6  # of the words' terms
_EXAMINED = 24  # of the nearest, for their values


@dataclass(frozen=True, slots=True)
class _Candidate:
    utterance: Utterance
    terms: frozenset[str]
    size: int


class Meant:
    """Finds sentences by their words. Made once for each reply."""

    def __init__(self, said: Sequence[Utterance]) -> None:
        self._same: dict[str, Utterance] = {}
        for one in said:
            for words in {key(one.text), key(told(one))}:
                before = self._same.get(words)
                if before is None or one.by_user or not before.by_user:
                    self._same[words] = one
        self._candidates = [
            candidate for one in said[-_CANDIDATES:] for candidate in _candidates(one)
        ]

    def by(self, words: str) -> list[Utterance]:
        """The sentence that `words` mean; several, when they are several sentences; or none."""
        if found := self._one(words):
            return [found]
        parts = list(sentences.of_line(words[: 2 * _LONGEST]))
        if len(parts) < 2:
            return []
        each = [self._one(part) for part in parts]
        return [one for one in each if one] if all(each) else []

    def _one(self, words: str) -> Utterance | None:
        return self._same.get(key(words)) or self._nearest(words[:_LONGEST])

    def _nearest(self, words: str) -> Utterance | None:
        wanted = terms(words)
        if not wanted:
            return None
        fitting: list[tuple[float, Utterance]] = []
        for score, candidate in self._ranked(wanted):
            # A value that the sentence has not was never said there, however near the words are.
            if not Evidence.of([told(candidate.utterance)]).missing(words):
                fitting.append((score, candidate.utterance))
        return _clearest(fitting)

    def _ranked(self, wanted: frozenset[str]) -> list[tuple[float, _Candidate]]:
        """The candidates that are near enough to be examined, the nearest first."""
        size = _size(wanted)
        near: list[tuple[float, int]] = []
        for place, candidate in enumerate(self._candidates):
            common = wanted & candidate.terms
            shared = _size(common)
            if shared < _PART * min(size, candidate.size):
                continue
            score = 2 * shared / (size + candidate.size)
            if score >= _LIKE or _is_most(common, wanted):
                near.append((score, place))
        ranked = sorted(near, reverse=True)[:_EXAMINED]
        return [(score, self._candidates[place]) for score, place in ranked]


def _clearest(fitting: Sequence[tuple[float, Utterance]]) -> Utterance | None:
    """The nearest, if no other sentence is nearly as near. Of equal words a user's are meant."""
    if not fitting:
        return None
    best, first = fitting[0]
    rivals = [one for score, one in fitting if score > best - _CLEAR]
    if any(key(one.text) != key(first.text) for one in rivals):
        return None
    return next((one for one in rivals if one.by_user), first)


def _is_most(common: frozenset[str], wanted: frozenset[str]) -> bool:
    """Whether a part is as near as it seems: few terms are soon a part of a sentence."""
    return len(common) >= max(_COMMON_TERMS, _COMMON_SHARE * len(wanted))


def _candidates(one: Utterance) -> Iterator[_Candidate]:
    """A sentence by its own words, and together with what it answers."""
    for text in dict.fromkeys((one.text, told(one))):
        found = terms(text[:_LONGEST])
        yield _Candidate(one, found, _size(found))


def _size(found: frozenset[str]) -> int:
    return sum(map(len, found))


def key(text: str) -> str:
    """What is the same whatever blanks, case and punctuation; a text of signs is itself."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(filter(str.isalnum, folded)) or text
