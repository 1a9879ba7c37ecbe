"""The talk: which sentences stand in a summary that nobody chose, and how they are shown. Pure.

An utterance is worth the terms that nothing chosen before it has told yet, for each token that it
costs: exact values above all. Users' own words count most, above all those that lay something down;
less do how answers begin, questions, what answers say further on and what was pasted.

The measure is maximal coverage within a budget, chosen greedily (Lin and Bilmes, 2010,
"Multi-document summarization via budgeted maximization of submodular functions").
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from math import log

from service.summarising.markup import harmless, unmarked
from service.summarising.utterances import Utterance
from service.summarising.wordings import OBLIGING
from service.text import tokens
from service.text.sentences import asks
from service.text.terms import is_exact, terms

_VALUE = 4.0  # worth of an exact value beside that of a rare word
_LONG = 6  # letters beyond the first of a word that says most
_COMMONEST = 50  # utterances; a word that one of so many has is worth one, as all in a shorter talk
_TOLD = 80  # percent of a term's worth that it loses once it was told
_OBLIGES = 2.0  # of a user's utterance that lays something down
_ASKS = 0.6  # of a user's question: what it is about stands in the answer too
_OPENS = 0.8  # of the sentences with which an answer begins: yes or no, and what was decided;
_OPENING = 2  # so many of them
_REST = 0.5  # of what else an answer says, and of what users paste or attach;
_FURTHER = 0.9  # of the one before it, for each that follows
_UNIT = 1_000_000
_SPACE = 1  # tokens around an utterance
_STEP = 4  # of the line that a step has: the speaker's name
_LINE = 2  # tokens of a list mark and a line break

_terms = lru_cache(maxsize=8192)(terms)
_count = lru_cache(maxsize=8192)(tokens.count)


def told(utterance: Utterance) -> str:
    """Its words, with the head of their list."""
    if not utterance.context:
        return utterance.text
    return f"{utterance.context} → {utterance.text}"


def fitted(said: Sequence[Utterance], room: int, known: Iterable[str] = ()) -> list[Utterance]:
    """The best of the talk that about `room` tokens show, in its order.

    Args:
        said: in the order of the talk.
        room: tokens.
        known: texts that stand elsewhere in the summary, whose terms need not be told again.
    """
    best = _chosen(said, room, known)
    # A head or a date stands once, so what they take together is measured.
    while best and size(lines(sorted(best, key=_place))) > room:
        best.pop()
    return sorted(best, key=_place)


def _chosen(said: Sequence[Utterance], room: int, known: Iterable[str]) -> list[Utterance]:
    """What has room by its price alone, the best first."""
    ranking = _Ranking(said)
    ranking.cover(frozenset(term for text in known for term in _terms(text)))
    chosen: list[Utterance] = []
    begun: set[int] = set()
    heads: set[tuple[int, str]] = set()
    left = room
    for place, worth in ranking.best():
        one = said[place]
        head = (one.step, one.context)
        # A head stands once, and so does the name of who speaks.
        price = _count(one.text) + _SPACE if head in heads else cost(one)
        price += 0 if one.step in begun else _STEP
        if price > left or worth <= 0:
            continue
        left -= price
        chosen.append(one)
        begun.add(one.step)
        heads |= {head, (one.step, one.text)}
        ranking.cover(ranking.terms[place])
    return chosen


def lines(said: Sequence[Utterance]) -> tuple[str, ...]:
    """The talk as it is shown: a line for each step; of several days each stands above its own."""
    shown: list[str] = []
    days = {_day(one) for one in said}
    day = days.pop() if len(days) == 1 else ""
    for (_, speaker), group in groupby(said, key=lambda one: (one.step, one.speaker)):
        spoken = list(group)
        if _day(spoken[0]) not in ("", day):
            day = _day(spoken[0])
            shown.append(f"({day})")
        shown.append(harmless(f"{speaker}: {_line(spoken)}"))
    return tuple(shown)


def cost(utterance: Utterance) -> int:
    """Tokens of an utterance with its context, but for its share of a line."""
    return _count(told(utterance)) + _SPACE


def size(shown: Iterable[str]) -> int:
    """Tokens of lines with their marks."""
    return sum(_count(line) + _LINE for line in shown)


def _place(one: Utterance) -> tuple[int, int]:
    return one.step, one.place


def _line(spoken: Sequence[Utterance]) -> str:
    """The utterances of a step. A head stands before the first that needs it."""
    parts: list[str] = []
    shown: set[str] = set()
    place = 0
    for one in spoken:
        words = one.text if one.context in shown else told(one)
        shown |= {one.context, one.text}
        if place and one.place > place + 1:
            parts.append("…")
        parts.append(unmarked(words))
        place = one.place
    return " ".join(parts)


def _day(one: Utterance) -> str:
    return f"{datetime.fromtimestamp(one.at, UTC):%Y-%m-%d}" if one.at else ""


def _bearing(one: Utterance) -> float:
    """What an utterance's worth is multiplied with, because more or less follows from it."""
    if one.by_user:
        asking = _ASKS if asks(one.text) else 1.0
        return asking * (_OBLIGES if OBLIGING.search(one.text) else 1.0)
    if one.own and one.place <= _OPENING:
        return _OPENS
    return _REST * _FURTHER ** max(one.place - _OPENING, 0)


def _weight(term: str, share: float) -> float:
    """The worth of a term that `share` of the utterances have: short, common words have little."""
    if is_exact(term):
        return _VALUE
    length = 1.0 if not term.isascii() else min(1.0, (len(term) - 1) / _LONG)
    return length * log(1 + 1 / share) / log(_COMMONEST)


class _Ranking:
    """What is told so far of a talk, and what each of its utterances is worth beside that.

    Worth is counted in whole millionths: their sum has no order, and terms have another one in each
    process.
    """

    def __init__(self, talk: Sequence[Utterance]) -> None:
        self.terms = [_terms(told(one)) for one in talk]
        self._tellers: dict[str, list[int]] = {}
        for place, found in enumerate(self.terms):
            for term in found:
                self._tellers.setdefault(term, []).append(place)
        most = max(len(talk), _COMMONEST)
        self._weights = {
            term: round(_UNIT * _weight(term, len(places) / most))
            for term, places in self._tellers.items()
        }
        self._per_token = [_bearing(one) / (cost(one) + _STEP) for one in talk]
        self._worth = [sum(map(self._weights.__getitem__, found)) for found in self.terms]
        self._covered: set[str] = set()

    def cover(self, told_now: Set[str]) -> None:
        """Lowers the worth of all utterances that have these terms, which are shown from now on."""
        for term in told_now - self._covered:
            lost = self._weights.get(term, 0) * _TOLD // 100
            for place in self._tellers.get(term, ()):
                self._worth[place] -= lost
        self._covered |= told_now

    def best(self) -> Iterator[tuple[int, float]]:
        """All places, the best first, and the worth of each for a token in units of a rare word.

        Worth only falls while more is covered, so a head of the heap that is still the best after
        it was weighed again is the best of all.
        """
        heap = [(-self._for_each_token(place), place) for place in range(len(self._worth))]
        heapq.heapify(heap)
        while heap:
            _, place = heapq.heappop(heap)
            now = -self._for_each_token(place)
            if heap and now > heap[0][0]:
                heapq.heappush(heap, (now, place))
                continue
            yield place, -now / _UNIT

    def _for_each_token(self, place: int) -> float:
        return self._worth[place] * self._per_token[place]
