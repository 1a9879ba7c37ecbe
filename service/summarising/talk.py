"""Which utterances of the talk stand in a summary, when not all of them can. Pure, knows no language.

The user's own words come first, then of the answers what tells most. An utterance is worth the
terms that nothing chosen before it has told yet, for each token that it costs: exact values above
all, and what somebody took up again in another step. The oldest shrink first.

The measure is maximal coverage within a budget, chosen greedily (Lin and Bilmes, 2010, "Multi-document
summarization via budgeted maximization of submodular functions").
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum, log
from types import MappingProxyType

from service import tokens
from service.summarising.utterances import Utterance
from service.text.sentences import asks
from service.text.terms import has_digit, terms

_VALUE = 4.0  # worth of an exact value beside that of a rare word
_SHARED = 2.0  # of a term that another step has too
_LONG = 6  # letters beyond the first of a word that says most
_COMMONEST = 50  # utterances; a word that one of so many has is worth one
_AGAIN = 0.2  # of a term that was told before
_OLDEST = 0.6  # of the oldest utterance beside the newest
_SPACE = 1  # tokens around an utterance
_STEP = 4  # of the line that a step has: the speaker's name


def cost(utterance: Utterance, beside: str = "") -> int:
    """Tokens of an utterance with what is shown `beside` it, but for its share of a line."""
    return _count(told(utterance)) + (_count(beside) if beside else 0) + _SPACE


def told(utterance: Utterance) -> str:
    """Its words, with the question that they answer or the head of their list."""
    if not utterance.context:
        return utterance.text
    if asks(utterance.context):
        return f"(asked: {utterance.context}) {utterance.text}"
    return f"{utterance.context} → {utterance.text}"


def chosen(
    talk: Sequence[Utterance],
    room: int,
    known: Iterable[str] = (),
    beside: Mapping[str, str] = MappingProxyType({}),
) -> list[Utterance]:
    """The utterances that `room` tokens have room for, in the order of the talk.

    Args:
        talk: in order.
        room: tokens.
        known: texts that stand elsewhere in the summary, whose terms need not be told again.
        beside: by number, what an utterance is shown with.
    """
    return Selection(talk, known, beside).within(room)


class Selection:
    """A talk that is weighed once, to choose from it within several rooms. The arguments are those of `chosen`."""

    def __init__(self, talk: Sequence[Utterance], known: Iterable[str], beside: Mapping[str, str]) -> None:
        self._talk = talk
        self._prices = {one.number: cost(one, beside.get(one.number, "")) for one in talk}
        self._covered = frozenset(term for text in known for term in _terms(text))
        self._scale = _Scale.of(talk)

    def within(self, room: int) -> list[Utterance]:
        """The utterances that `room` tokens have room for, in the order of the talk."""
        steps = {one.step for one in self._talk}
        if sum(self._prices.values()) + _STEP * len(steps) <= room:
            return list(self._talk)
        choice = _Choice(self._scale, self._prices, room, set(self._covered))
        choice.take([one for one in self._talk if one.by_user])
        choice.take([one for one in self._talk if not one.by_user])
        return [one for one in self._talk if one in choice.taken]


@dataclass(frozen=True, slots=True)
class _Scale:
    """How much a term is worth in this talk, and how much an utterance's age takes off."""

    weights: Mapping[str, float]
    steps: Mapping[int, float]

    @classmethod
    def of(cls, talk: Sequence[Utterance]) -> "_Scale":
        found: Counter[str] = Counter()
        steps: dict[str, set[int]] = {}
        for one in talk:
            for term in _terms(told(one)):
                found[term] += 1
                steps.setdefault(term, set()).add(one.step)
        weights = {
            term: _weight(term, count / len(talk)) * (_SHARED if len(steps[term]) > 1 else 1)
            for term, count in found.items()
        }
        numbers = sorted({one.step for one in talk})
        last = max(len(numbers) - 1, 1)
        ages = {step: _OLDEST + (1 - _OLDEST) * place / last for place, step in enumerate(numbers)}
        return cls(weights, ages)

    def worth(self, utterance: Utterance, covered: Collection[str]) -> float:
        """What it tells that is not covered yet."""
        found = _terms(told(utterance))
        # `fsum` has no order; terms have another one in each process.
        value = fsum(self.weights[term] * (_AGAIN if term in covered else 1) for term in found)
        return value * self.steps[utterance.step]


def _weight(term: str, share: float) -> float:
    """Of a term that so large a share of the utterances has: short words, and common ones, say little."""
    if has_digit(term):
        return _VALUE
    length = 1.0 if not term.isascii() else min(1.0, (len(term) - 1) / _LONG)
    return length * log(1 + 1 / share) / log(_COMMONEST)


class _Choice:
    """What was taken so far, and the room that is left."""

    def __init__(self, scale: _Scale, prices: Mapping[str, int], room: int, covered: set[str]) -> None:
        self.taken: set[Utterance] = set()
        self._scale = scale
        self._prices = prices
        self._room = room
        self._covered = covered
        self._steps: set[int] = set()

    def take(self, talk: Sequence[Utterance]) -> None:
        """Takes the best of `talk`, one after the other, while there is room.

        Worth only falls while more is covered, so a head of the heap that is still the best after
        it was weighed again is the best of all.
        """
        heap = [(-self._worth(one), place) for place, one in enumerate(talk)]
        heapq.heapify(heap)
        while heap:
            _, place = heapq.heappop(heap)
            one = talk[place]
            now = -self._worth(one)
            if heap and now > heap[0][0]:
                heapq.heappush(heap, (now, place))
                continue
            price = self._prices[one.number] + (0 if one.step in self._steps else _STEP)
            if price <= self._room:
                self._room -= price
                self._steps.add(one.step)
                self._covered |= _terms(told(one))
                self.taken.add(one)

    def _worth(self, one: Utterance) -> float:
        """For each token."""
        return self._scale.worth(one, self._covered) / cost(one)


@lru_cache(maxsize=8192)
def _terms(text: str) -> frozenset[str]:
    return terms(text)


@lru_cache(maxsize=8192)
def _count(text: str) -> int:
    return tokens.count(text)
