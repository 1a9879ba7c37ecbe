"""Which parts of a path answer a question best: Okapi BM25, in any script; see docs/adr/0013. Pure.

What users say is short and what answers say is long, so each is compared among its own; what users
said counts more, and so does what stands beside others that answer. A block of a long answer or of
a result is compared by itself. How often a part has a word means nothing. Of equals the newest
comes first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import log
from operator import itemgetter

from service.recall import words
from service.recall.parts import SearchedPart

_K1, _B = 2.0, 0.75
_USER = 1.5  # weight of what users said: they are fewer, so a word is less rare among them
_BESIDE = 0.2  # of what the messages before and behind are worth, which is added
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

    terms: set[int]
    length: int  # in words


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
    term_of = _terms(set[str]().union(*told), question, language)
    looked_for = set(term_of)
    texts: list[_RankedText] = []
    for found in told:
        having = looked_for.intersection(found)  # takes half of what a loop over the words takes
        texts.append(_RankedText({term_of[word] for word in having}, len(found)))
    worth = _worth(places, texts)
    order = sorted(worth, key=lambda at: (-worth[at], -at))
    shown_by = tuple(sorted(term_of, key=len, reverse=True)[:_VARIANTS])
    return list(islice(_hits(order, places, shown_by), most))


def _terms(vocabulary: set[str], question: str, language: str | None) -> dict[str, int]:
    """Of the words of a chat those that the question asks for: by which of its words each is."""
    number_of = dict[str, int]()
    for number, word in enumerate(list(dict.fromkeys(words.words(question)))[:_LONGEST]):
        for key in words.asked(word, language):
            number_of.setdefault(key, number)
    # Endings differ, beginnings hardly do.
    begins = set(map(itemgetter(0), number_of))
    likely = [word for word in vocabulary if word[0] in begins or not word.isascii()]
    keys = words.stems(likely, language)
    return {word: number_of[key] for word, key in keys.items() if key in number_of}


def _worth(places: _Places, texts: Sequence[_RankedText]) -> dict[int, float]:
    """What each text that answers is worth among its kind, and by its neighbours."""
    users = {at: text for at, text in enumerate(texts) if places[at][1].by_user}
    others = {at: text for at, text in enumerate(texts) if at not in users}
    alone = _scores(users, _USER) | _scores(others, 1.0)
    # Of a message with several, the best comes last.
    ascending = sorted(alone, key=alone.__getitem__)
    of_message = {places[at][0]: alone[at] for at in ascending}
    worth = dict[int, float]()
    for at, score in alone.items():
        before, behind = places[at][0] - 1, places[at][0] + 1
        beside = of_message.get(before, 0.0) + of_message.get(behind, 0.0)
        worth[at] = score + _BESIDE * beside
    return worth


def _scores(texts: Mapping[int, _RankedText], weight: float) -> dict[int, float]:
    """BM25 of each text that has a term of the question."""
    having = Counter(term for text in texts.values() for term in text.terms)
    mean = sum(text.length for text in texts.values()) / max(len(texts), 1) or 1.0
    worth = {
        term: weight * log(1 + (len(texts) - count + 0.5) / (count + 0.5))
        for term, count in having.items()
    }
    scores = dict[int, float]()
    for at, text in texts.items():
        if text.terms:
            long = _K1 * (1 - _B + _B * text.length / mean)
            scores[at] = sum(worth[term] for term in text.terms) * (_K1 + 1) / (1 + long)
    return scores


def _hits(order: Iterable[int], places: _Places, asked: tuple[str, ...]) -> Iterator[Hit]:
    """The parts in their order, but for what was said and is shown already beside another."""
    said = {message for message, part in places if not part.call}
    shown = set[int]()
    for at in order:
        message, part = places[at]
        if part.call:
            yield Hit(message, part, (), asked)
        elif message not in shown:
            # A question is shown with its answer and what was asked then, all else in the middle.
            first = message if part.by_user else message - 1
            seen = said.intersection(range(first, first + 3))
            shown |= seen
            yield Hit(message, part, tuple(sorted(seen - {message})), asked)
