"""Which utterances of the talk stand in a summary, when not all of them can. Pure.

It knows no language. The user's own words come first, then what they pasted, by its size, then of
the answers what tells most. An utterance is worth the terms that nothing chosen before it has told
yet, for each token that it costs: exact values above all, and what somebody took up again in
another step. The oldest shrink first.

The measure is maximal coverage within a budget, chosen greedily (Lin and Bilmes, 2010,
"Multi-document summarization via budgeted maximization of submodular functions").
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from math import log

from service.summarising.utterances import Speaker, Utterance
from service.text import tokens
from service.text.blocks import Sort
from service.text.sentences import asks
from service.text.terms import is_exact, terms

_VALUE = 4.0  # worth of an exact value beside that of a rare word
_SHARED = 2.0  # of a term that another step has too
_LONG = 6  # letters beyond the first of a word that says most
_COMMONEST = 50  # utterances; a word that one of so many has is worth one
_TOLD = 80  # percent of a term's worth that it loses once it was told
_OLDEST = 0.6  # of the oldest utterance beside the newest
_OWN, _GIVEN, _ASSISTANTS = range(3)  # users' own words, what they pasted or attached, answers
_UNIT = 1_000_000
_SPACE = 1  # tokens around an utterance
_STEP = 4  # of the line that a step has: the speaker's name


def cost(utterance: Utterance) -> int:
    """Tokens of an utterance with its context, but for its share of a line."""
    return count(told(utterance)) + _SPACE


def told(utterance: Utterance) -> str:
    """Its words, with the question that they answer or the head of their list.

    Somebody else's stand behind their source, and in marks.
    """
    if utterance.sort is Sort.DOCUMENT:
        return f"(pasted) {quoted(utterance)}"
    if not utterance.context:
        return utterance.text
    if asks(utterance.context):
        return f"(asked: {utterance.context}) {utterance.text}"
    return f"{utterance.context} → {utterance.text}"


def quoted(utterance: Utterance) -> str:
    """Its words in marks that nothing in it can close."""
    return "“" + utterance.text.replace("“", '"').replace("”", '"') + "”"


def chosen(talk: Sequence[Utterance], room: int) -> list[Utterance]:
    """The utterances that `room` tokens have room for, as far as is known before they are shown.

    They stand in the order of the talk, as `talk` does.
    """
    steps = {one.step for one in talk}
    if sum(map(cost, talk)) + _STEP * len(steps) <= room:
        return list(talk)
    kept: set[str] = set()
    begun: set[int] = set()
    for one in ranked([one for one in talk if cost(one) <= room]):
        price = cost(one) + (0 if one.step in begun else _STEP)
        if price <= room:
            room -= price
            kept.add(one.number)
            begun.add(one.step)
    return [one for one in talk if one.number in kept]


def ranked(talk: Sequence[Utterance], known: Iterable[str] = ()) -> list[Utterance]:
    """The talk by its worth: each is the best beside all that come before it.

    Args:
        talk: in order.
        known: texts that stand elsewhere in the summary, whose terms need not be told again.
    """
    ranking = _Ranking(talk)
    ranking.cover(frozenset(term for text in known for term in _terms(text)))
    for rank in (_OWN, _GIVEN, _ASSISTANTS):
        ranking.add(place for place, one in enumerate(talk) if _rank(one) == rank)
    return [talk[place] for place in ranking.places]


def _rank(utterance: Utterance) -> int:
    """Which of the talk is told first."""
    # A document's sentences may be the user's own after all, and a description says little.
    if utterance.speaker is Speaker.USER and utterance.stands:
        return _OWN
    return _GIVEN if utterance.speaker is Speaker.USER else _ASSISTANTS


@dataclass(frozen=True, slots=True)
class _Scale:
    """What a talk's terms are worth, and which utterances have them, by their place in the talk.

    Worth is counted in whole millionths: their sum has no order, and terms have another one in each
    process.
    """

    terms: Sequence[frozenset[str]]
    tellers: Mapping[str, Sequence[int]]
    weights: Mapping[str, int]
    per_token: Sequence[float]  # of an utterance's worth: the older and the longer, the less

    @classmethod
    def of(cls, talk: Sequence[Utterance]) -> "_Scale":
        found = [_terms(told(one)) for one in talk]
        tellers = _tellers(found)
        weights = {term: _worth(term, places, talk) for term, places in tellers.items()}
        ages = _ages(talk)
        return cls(found, tellers, weights, [ages[one.step] / cost(one) for one in talk])


def _tellers(found: Sequence[frozenset[str]]) -> dict[str, list[int]]:
    """The places of the utterances that have each term, in order."""
    tellers: dict[str, list[int]] = {}
    for place, terms_of_one in enumerate(found):
        for term in terms_of_one:
            tellers.setdefault(term, []).append(place)
    return tellers


def _worth(term: str, places: Sequence[int], talk: Sequence[Utterance]) -> int:
    """In millionths: what somebody took up again in another step is worth more."""
    in_one_step = talk[places[0]].step == talk[places[-1]].step
    weight = _weight(term, len(places) / len(talk)) * (1 if in_one_step else _SHARED)
    return round(_UNIT * weight)


def _ages(talk: Sequence[Utterance]) -> dict[int, float]:
    """What each step's worth is multiplied with: 1 for the newest, `_OLDEST` for the oldest."""
    numbers = sorted({one.step for one in talk})
    last = max(len(numbers) - 1, 1)
    return {step: _OLDEST + (1 - _OLDEST) * place / last for place, step in enumerate(numbers)}


def _weight(term: str, share: float) -> float:
    """The worth of a term that `share` of the utterances have: short, common words have little."""
    if is_exact(term):
        return _VALUE
    length = 1.0 if not term.isascii() else min(1.0, (len(term) - 1) / _LONG)
    return length * log(1 + 1 / share) / log(_COMMONEST)


class _Ranking:
    """The places of a talk that were ranked so far."""

    def __init__(self, talk: Sequence[Utterance]) -> None:
        self.places: list[int] = []
        self._scale = scale = _Scale.of(talk)
        self._worth = [sum(map(scale.weights.__getitem__, found)) for found in scale.terms]
        self._covered: set[str] = set()

    def cover(self, told_now: Set[str]) -> None:
        """Lowers the worth of all utterances that have these terms, which are shown from now on."""
        for term in told_now - self._covered:
            lost = self._scale.weights.get(term, 0) * _TOLD // 100
            for place in self._scale.tellers.get(term, ()):
                self._worth[place] -= lost
        self._covered |= told_now

    def add(self, places: Iterable[int]) -> None:
        """Ranks `places` behind those that are ranked, the best first.

        Worth only falls while more is covered, so a head of the heap that is still the best after
        it was weighed again is the best of all.
        """
        heap = [(-self._for_each_token(place), place) for place in places]
        heapq.heapify(heap)
        while heap:
            _, place = heapq.heappop(heap)
            now = -self._for_each_token(place)
            if heap and now > heap[0][0]:
                heapq.heappush(heap, (now, place))
                continue
            self.places.append(place)
            self.cover(self._scale.terms[place])

    def _for_each_token(self, place: int) -> float:
        return self._worth[place] * self._scale.per_token[place]


@lru_cache(maxsize=8192)
def _terms(text: str) -> frozenset[str]:
    return terms(text)


@lru_cache(maxsize=8192)
def count(text: str) -> int:
    """Tokens of a text, which is counted once."""
    return tokens.count(text)
