"""Which passages of a path answer a question best, in any script; see docs/adr/0013. Pure.

Two orders take turns. In one, a passage is worth the words of the question that stand together in
it, and a little of what its block is worth. In the other, blocks are compared by Okapi BM25: those
of users among theirs, because they are short; what users said counts more, and so does what stands
beside others that answer. How often a text has a word means nothing. Of equals the newest comes
first.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from math import log
from operator import itemgetter

from service.recall import words
from service.recall.parts import SearchedPart

_K1, _B = 2.0, 0.75
_USER = 1.5  # weight of what users said: they are fewer, so a word is less rare among them
_BESIDE = 0.2  # of what the messages before and behind are worth, which is added to a block
_BLOCK = 0.2  # of what its block is worth, which is added to a passage
_ANSWERS = 0.5  # A passage is an answer if it has this share of what the question is worth.
_CANDIDATES = 200  # blocks whose passages are weighed
_LONGEST = 64  # words of a question that are looked for
_VARIANTS = 40  # words of a hit by which its best place is found
_Places = Sequence[tuple[int, SearchedPart]]


@dataclass(frozen=True, slots=True)
class Hit:
    """A part that was found.

    Attributes:
        message: its place in the path, from 0.
        part: what was found of it.
        passage: which of its passages, from 0.
        beside: the places of the messages that are shown with it, if something was said in it.
        words: words of the chat that the question asked for, as they stand there.
    """

    message: int
    part: SearchedPart
    passage: int
    beside: tuple[int, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _RankedText:
    """A block that is weighed: its terms are the words of the question, by their numbers."""

    having: Mapping[str, int]  # words of it, and the terms that they are
    length: int  # in words

    @property
    def terms(self) -> set[int]:
        """Each term once."""
        return set(self.having.values())

    def score(self, rarity: Mapping[int, float], mean: float) -> float:
        """BM25 beside texts of `mean` words."""
        long = _K1 * (1 - _B + _B * self.length / mean)
        return sum(rarity[term] for term in self.terms) * (_K1 + 1) / (1 + long)


@dataclass(frozen=True, slots=True)
class _RankedPassage:
    """A passage that may answer: the place of its block, its number in it, and its words' worth."""

    at: int
    number: int
    worth: float


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
    texts = list[_RankedText]()
    for found in told:
        having = {word: term_of[word] for word in looked_for.intersection(found)}
        # A word counts once, however many passages have it. A text without words of the question
        # needs its length for the mean alone, and a set of each would take a fifth of the time.
        length = len(set(found)) if having else len(found)
        texts.append(_RankedText(having, length))
    worth = _worth_of_blocks(places, texts)
    best = sorted(worth, key=lambda at: (-worth[at], -at))[:_CANDIDATES]
    order = _order_passages(places, texts, worth, best)
    shown_by = tuple(sorted(term_of, key=len, reverse=True)[:_VARIANTS])
    return list(islice(_hits(order, places, shown_by), most))


def _order_passages(
    places: _Places,
    texts: Sequence[_RankedText],
    worth: Mapping[int, float],
    best: Sequence[int],
) -> Iterator[_RankedPassage]:
    """The passages of the best blocks, in the order in which they are shown."""
    rarity = _rarity(texts)
    passages = [
        one for at in best for one in _passages(at, places[at][1], texts[at].having, rarity)
    ]
    passages.sort(key=lambda one: (-one.worth - _BLOCK * worth[one.at], -one.at, one.number))
    least = _ANSWERS * sum(rarity.values())
    answers = [one for one in passages if one.worth >= least]
    best_of = {one.at: one for one in reversed(passages)}
    return _in_turns(answers, [best_of[at] for at in best])


def _in_turns(
    answers: Sequence[_RankedPassage], blocks: Sequence[_RankedPassage]
) -> Iterator[_RankedPassage]:
    """The best answer, the best passages of the two best blocks, the second answer, and so on.

    So a sentence that has most of the question comes first, however many blocks have the same words
    here and there, and what only a whole block answers is not lost behind other sentences.
    """
    seen = set[tuple[int, int]]()
    for one in chain.from_iterable(zip_longest(answers, blocks[::2], blocks[1::2])):
        if one and (one.at, one.number) not in seen:
            seen.add((one.at, one.number))
            yield one


def _rarity(texts: Collection[_RankedText]) -> dict[int, float]:
    """What each term is worth, by how many of the texts have it."""
    having = Counter(term for text in texts if text.having for term in text.terms)
    return {
        term: log(1 + (len(texts) - count + 0.5) / (count + 0.5)) for term, count in having.items()
    }


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


def _worth_of_blocks(places: _Places, texts: Sequence[_RankedText]) -> dict[int, float]:
    """What each block that answers is worth among its kind, and by its neighbours."""
    alone = dict[int, float]()
    for by_user in (True, False):
        kind = {at: text for at, text in enumerate(texts) if places[at][1].by_user is by_user}
        rarity = _rarity(kind.values())
        mean = _mean_length(kind.values())
        for at, text in kind.items():
            if text.having:
                alone[at] = (_USER if by_user else 1.0) * text.score(rarity, mean)
    of_message = dict[int, float]()  # the worth of its best block
    for at, score in alone.items():
        message = places[at][0]
        of_message[message] = max(of_message.get(message, 0.0), score)
    worth = dict[int, float]()
    for at, score in alone.items():
        before, behind = places[at][0] - 1, places[at][0] + 1
        beside = of_message.get(before, 0.0) + of_message.get(behind, 0.0)
        worth[at] = score + _BESIDE * beside
    return worth


def _mean_length(texts: Collection[_RankedText]) -> float:
    return sum(text.length for text in texts) / max(len(texts), 1) or 1.0


def _passages(
    at: int, part: SearchedPart, having: Mapping[str, int], rarity: Mapping[int, float]
) -> Iterator[_RankedPassage]:
    """The passages of a block that have words of the question; else the first, for its call."""
    is_found = False
    for number, line in enumerate(part.passages):
        padded = f" {line} "  # to look for a few words takes a third of what splitting takes
        terms = {term for word, term in having.items() if f" {word} " in padded}
        if terms:
            is_found = True
            yield _RankedPassage(at, number, sum(rarity[term] for term in terms))
    if not is_found:
        yield _RankedPassage(at, 0, 0.0)


def _hits(
    order: Iterable[_RankedPassage], places: _Places, asked: tuple[str, ...]
) -> Iterator[Hit]:
    """The passages in their order, but for what was said and is shown already beside another."""
    said = {message for message, part in places if not part.call}
    shown = set[int]()
    for one in order:
        message, part = places[one.at]
        if part.call:
            yield Hit(message, part, one.number, (), asked)
        elif message not in shown:
            # A question is shown with its answer and what was asked then, all else in the middle.
            first = message if part.by_user else message - 1
            seen = said.intersection(range(first, first + 3))
            shown |= seen
            yield Hit(message, part, one.number, tuple(sorted(seen - {message})), asked)
