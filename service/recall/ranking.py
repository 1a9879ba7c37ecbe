"""Ranks the passages of a path by how well they answer a question; see docs/adr/0013. Pure.

Two orders take turns. The first compares passages: a passage scores by the words of the question
that stand together in it, and a little by the score of its block. The second compares blocks by
Okapi BM25. Blocks of users are compared with each other, because they are short; they count more,
and so does a block whose neighbours answer, too. A word counts once, however often a text has it.
Of equals the newest comes first.
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
_USER_WEIGHT = 1.5  # Users' blocks are fewer, so a word is less rare among them.
_NEIGHBOUR_WEIGHT = 0.2  # of the scores of the messages on both sides, for a block
_BLOCK_WEIGHT = 0.2  # of the score of its block, for a passage
_ANSWER_SHARE = 0.5  # of the score of the whole question, from which a passage is an answer
_CANDIDATES = 200  # blocks whose passages are scored
_QUESTION_WORDS = 64
_SHOWN_WORDS = 40  # by which the best place of a hit is found
_Blocks = Sequence[tuple[int, SearchedPart]]


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found."""

    #: Place of its message in the path, from 0.
    message: int
    part: SearchedPart
    #: Number of the passage in the part, from 0.
    passage: int
    #: Places of the messages that are shown with it; none for a result of a tool.
    neighbours: tuple[int, ...]
    #: Words of the chat that the question asked for, as they stand there.
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ScoredBlock:
    """A block while it is compared. A term is the number of a word of the question."""

    #: The words of the block that the question asks for, with their terms.
    term_of: Mapping[str, int]
    #: Number of words in the block.
    length: int

    @property
    def terms(self) -> set[int]:
        """Each term once."""
        return set(self.term_of.values())

    def score(self, rarity: Mapping[int, float], mean_length: float) -> float:
        """The block's BM25 score among blocks of `mean_length` words."""
        normaliser = _K1 * (1 - _B + _B * self.length / mean_length)
        total = sum(rarity[term] for term in self.terms)
        return total * (_K1 + 1) / (1 + normaliser)


@dataclass(frozen=True, slots=True)
class _ScoredPassage:
    """A passage that may answer the question."""

    #: Place of its block among all blocks.
    block: int
    #: Its number in the block, from 0.
    number: int
    #: Sum of the rarity of its terms.
    score: float


def rank_passages(
    path: Sequence[Sequence[SearchedPart]], question: str, language: str | None, most: int
) -> list[Hit]:
    """At most `most` hits for a question, the best first.

    Args:
        path: the parts of each message, from the root on.
        question: some words.
        language: the chat's language, by whose endings words are compared; None compares whole
            words.
        most: number of hits.
    """
    blocks = [(message, part) for message, parts in enumerate(path) for part in parts]
    words_of = [part.words.split() for _, part in blocks]
    vocabulary = set[str]().union(*words_of)
    term_of = _match_words(vocabulary, question, language)
    scored_blocks = [_make_block(found, term_of) for found in words_of]
    scores = _score_blocks(blocks, scored_blocks)
    best = sorted(scores, key=lambda place: (-scores[place], -place))[:_CANDIDATES]
    order = _order_passages(blocks, scored_blocks, scores, best)
    # Words of one length are in alphabetical order, so that every process shows the same.
    longest_words = sorted(sorted(term_of), key=len, reverse=True)
    hits = _make_hits(order, blocks, tuple(longest_words[:_SHOWN_WORDS]))
    return list(islice(hits, most))


def _match_words(vocabulary: set[str], question: str, language: str | None) -> dict[str, int]:
    """The words of the chat that the question asks for, each with its term."""
    asked = list(dict.fromkeys(words.split_words(question)))
    term_of_stem = dict[str, int]()
    for term, word in enumerate(asked[:_QUESTION_WORDS]):
        for stem in words.find_variants(word, language):
            term_of_stem.setdefault(stem, term)
    # Endings differ, but beginnings hardly do, so only likely words are stemmed.
    beginnings = set(map(itemgetter(0), term_of_stem))
    likely = [word for word in vocabulary if word[0] in beginnings or not word.isascii()]
    stem_of = words.find_stems(likely, language)
    return {word: term_of_stem[stem] for word, stem in stem_of.items() if stem in term_of_stem}


def _make_block(found: Sequence[str], term_of: Mapping[str, int]) -> _ScoredBlock:
    asked = {word: term_of[word] for word in term_of.keys() & found}
    # The length of a block without words of the question only moves the mean. Such blocks are the
    # most, and making a set of each would take a fifth of the time.
    length = len(set(found)) if asked else len(found)
    return _ScoredBlock(asked, length)


def _score_blocks(blocks: _Blocks, scored: Sequence[_ScoredBlock]) -> dict[int, float]:
    """The score of each block that answers, with a part of its neighbours' scores."""
    own_scores = dict[int, float]()
    for by_user in (True, False):
        kind = {
            place: block
            for place, block in enumerate(scored)
            if blocks[place][1].by_user is by_user
        }
        weight = _USER_WEIGHT if by_user else 1.0
        rarity = _measure_rarity(kind.values())
        total = sum(block.length for block in kind.values())
        mean_length = total / max(len(kind), 1)
        for place, block in kind.items():
            if block.term_of:
                own_scores[place] = weight * block.score(rarity, mean_length)

    best_of_message = dict[int, float]()
    for place, score in own_scores.items():
        message = blocks[place][0]
        best_of_message[message] = max(best_of_message.get(message, 0.0), score)

    scores = dict[int, float]()
    for place, score in own_scores.items():
        message = blocks[place][0]
        above = best_of_message.get(message - 1, 0.0)
        below = best_of_message.get(message + 1, 0.0)
        scores[place] = score + _NEIGHBOUR_WEIGHT * (above + below)
    return scores


def _measure_rarity(blocks: Collection[_ScoredBlock]) -> dict[int, float]:
    """The weight of each term: the fewer blocks have it, the more it weighs."""
    counts = Counter(term for block in blocks if block.term_of for term in block.terms)
    rarity = dict[int, float]()
    for term, count in counts.items():
        rarity[term] = log(1 + (len(blocks) - count + 0.5) / (count + 0.5))
    return rarity


def _order_passages(
    blocks: _Blocks,
    scored: Sequence[_ScoredBlock],
    scores: Mapping[int, float],
    best: Sequence[int],
) -> Iterable[_ScoredPassage]:
    """The passages of the best blocks, in the order in which they are shown."""
    rarity = _measure_rarity(scored)
    passages: list[_ScoredPassage] = []
    for place in best:
        part = blocks[place][1]
        passages.extend(_score_passages(place, part, scored[place].term_of, rarity))

    def rank(passage: _ScoredPassage) -> tuple[float, int, int]:
        score = passage.score + _BLOCK_WEIGHT * scores[passage.block]
        return -score, -passage.block, passage.number

    passages.sort(key=rank)
    least = _ANSWER_SHARE * sum(rarity.values())
    answers = [passage for passage in passages if passage.score >= least]
    best_of_block = {passage.block: passage for passage in reversed(passages)}
    return _interleave(answers, [best_of_block[place] for place in best])


def _score_passages(
    place: int, part: SearchedPart, term_of: Mapping[str, int], rarity: Mapping[int, float]
) -> Iterator[_ScoredPassage]:
    """Yields the passages that have words of the question.

    If no passage has one, the words of its call are what answers, and the first passage stands for
    the block.
    """
    is_found = False
    for number, line in enumerate(part.passages):
        # Looking for a few words takes a third of the time that splitting the line takes.
        padded = f" {line} "
        terms = {term for word, term in term_of.items() if f" {word} " in padded}
        if terms:
            is_found = True
            yield _ScoredPassage(place, number, sum(rarity[term] for term in terms))
    if not is_found:
        yield _ScoredPassage(place, 0, 0.0)


def _interleave(
    answers: Sequence[_ScoredPassage], blocks: Sequence[_ScoredPassage]
) -> Iterable[_ScoredPassage]:
    """The best answer, the passages of the two best blocks, the second answer, and so on.

    So a sentence that has most of the question comes first, however many blocks have the same words
    here and there; and a block that answers only as a whole is not lost behind single sentences.
    """
    in_turn = chain.from_iterable(zip_longest(answers, blocks[::2], blocks[1::2]))
    return dict.fromkeys(filter(None, in_turn))


def _make_hits(
    order: Iterable[_ScoredPassage], blocks: _Blocks, asked: tuple[str, ...]
) -> Iterator[Hit]:
    """Yields the passages as hits, except messages that are shown already beside another hit."""
    spoken = {message for message, part in blocks if not part.call}
    shown = set[int]()
    for passage in order:
        message, part = blocks[passage.block]
        if part.call:
            yield Hit(message, part, passage.number, (), asked)
        elif message not in shown:
            # A question is shown with the two messages after it, an answer between its neighbours.
            first = message if part.by_user else message - 1
            window = spoken.intersection(range(first, first + 3))
            shown |= window
            neighbours = tuple(sorted(window - {message}))
            yield Hit(message, part, passage.number, neighbours, asked)
