"""A model's state, line by line: how it is stored and shown, and what goes for want of room. Pure.

A line is a head behind `## `, an item behind `- `, or plain words on one line. What stands between
two fence lines is code or a draft: it is stored and shown as it was written, blanks included.
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from heapq import heapify, heappop, heappush
from itertools import chain, count
from math import inf
from typing import NamedTuple

from service.summarising import heads
from service.summarising.markup import make_harmless, quote_code, quote_marks
from service.text import sentences, tokens
from service.text.terms import find_terms, is_exact

FENCE = "```"
HEAD, ITEM = "## ", "- "

_OPENS = re.compile(r"\A\s{0,20}(?:`{3,20}|~{3,20})\s{0,4}(?P<language>[\w+#.-]{0,20})")
_CLOSES = re.compile(r"\A\s{0,20}(?:`{3,20}|~{3,20})\s*\Z")
_MARKS = re.compile(r"\A\s{0,80}(?:[-*+•–—]\s{1,8})?(?:#{1,6}\s{0,8})?[*_`]{0,3}")
_HEAD = re.compile(r"\A\s{0,40}(?:(?P<marks>#{1,6})\s{0,8}|\*\*(?=[^*]{1,80}\*\*:?\s*\Z))")
_ITEM = re.compile(r"\A\s{0,80}(?:[-*+•–—]|\d{1,3}[.)])\s{1,8}")
_RULER = re.compile(r"\A\s*+[=\-_*~]{3,}+\s*\Z")
_POINTER = re.compile(r"\s?\[\d{1,6}\.\d{1,4}\]")
_AROUND = " \t*_`"
_CLAUSE = re.compile(r"(?:(?<=;) |(?<=；))(?![^(（]*[)）])")
_LABEL = re.compile(r"[^:：;；]{1,40}(?:: |：)(?=.)")
_EXACT = 4  # what an exact value counts beside a word
_LINE = 2  # tokens of a list mark and a line break

Block = tuple[str, ...]
"""One line of a state, or all lines of what is fenced, its fences included."""


class Segment(NamedTuple):
    """Raw lines that stand between two fences, or outside of any; `fence` is the first one."""

    lines: list[str]
    fence: str | None = None


def split_segments(raw: Iterable[str]) -> Iterator[Segment]:
    """Raw lines by whether they are fenced; a fence that nothing closes goes on to the end."""
    segment = Segment([])
    for line in raw:
        opens = _OPENS.match(line)
        if segment.fence is None and opens:
            yield segment
            segment = Segment([], FENCE + opens["language"])
        elif segment.fence is not None and _CLOSES.match(line):
            yield segment
            segment = Segment([])
        else:
            segment.lines.append(line)
    yield segment


def parse_state(raw: Iterable[str]) -> tuple[str, ...]:
    """Raw lines as a state is stored: without blank lines and rulers, what is fenced as it is."""
    state: list[str] = []
    for segment in split_segments(raw):
        if segment.fence is None:
            state += [parse_line(line) for line in segment.lines if says_something(line)]
        else:
            state += add_fences(segment)
    return tuple(state)


def says_something(raw: str) -> bool:
    """Whether a line outside of a fence is neither blank nor a ruler."""
    return bool(raw.strip(_AROUND)) and not _RULER.match(raw)


def parse_line(raw: str) -> str:
    """A line with the marks that a state has: `## ` before a head, `- ` before an item."""
    bare = _POINTER.sub("", raw)
    if _HEAD.match(bare):
        return HEAD + strip_marks(bare).strip().strip(_AROUND).rstrip(":：")
    words = " ".join(_ITEM.sub("", bare).split())
    return ITEM + words if _ITEM.match(bare) else words


def strip_marks(raw: str) -> str:
    """A line without the marks of an item, a head or an emphasis before its words."""
    return _MARKS.sub("", raw, count=1)


def add_fences(segment: Segment) -> Block:
    """A fenced segment with its fences; nothing when there is nothing in it."""
    lines = [line.rstrip() for line in segment.lines]
    if not any(lines):
        return ()
    return (segment.fence or FENCE, *lines, FENCE)


def split_blocks(state: Sequence[str]) -> list[Block]:
    """The lines of a state, those between two fences together."""
    found: list[Block] = []
    opened: list[str] = []
    for line in state:
        if opened or line.startswith(FENCE):
            opened.append(line)
            if len(opened) == 1 or not line.startswith(FENCE):
                continue
            found.append(tuple(opened))
            opened = []
        else:
            found.append((line,))
    # No fence stays open: it would take in what follows the state.
    return [*found, (*opened, FENCE)] if opened else found


def is_code(block: Block) -> bool:
    """Whether a block is fenced."""
    return block[0].startswith(FENCE)


def render(block: Block) -> Block:
    """A block as a record shows it: a head stands below ours, and nothing in it does harm."""
    if not is_code(block):
        return (_render_line(block[0]),)
    code = (f"“{line}”" if heads.imitates_ours(line) else quote_code(line) for line in block[1:-1])
    return (block[0], *code, FENCE)


def _render_line(line: str) -> str:
    """A line that imitates a head of ours is quoted words."""
    is_head, is_item = line.startswith(HEAD), line.startswith(ITEM)
    bare = line.removeprefix(HEAD if is_head else ITEM)
    words = make_harmless(quote_marks(bare))
    if heads.imitates_ours(words):
        is_head, words = False, f"“{words}”"
    mark = f"#{HEAD}" if is_head else ITEM if is_item else ""
    return mark + words


def count_tokens(block: Block) -> int:
    """Tokens of a block as it is shown."""
    return sum(tokens.count(line) + _LINE for line in render(block))


class FittedState(NamedTuple):
    """The blocks that have room, in order, and the clauses and blocks that were given up."""

    kept: list[Block]
    given_up: list[str]


_Opening = int | tuple[int, int]
"""A head or a line, by its block; or a sentence of a line."""


class _Part(NamedTuple):
    """A clause of a line, or a whole fenced block: what goes or stays as one.

    Attributes:
        place: its place in the state.
        block: that of its line.
        sentence: the place of its sentence in the line.
        label: what that sentence begins with, and what belongs to all of its clauses: `Friday: `.
        text: its words.
        size: their tokens.
        terms: what they are about.
        openings: what stands once for several parts, and its tokens.
    """

    place: int
    block: int
    sentence: int
    label: str
    text: str
    size: int
    terms: frozenset[str]
    openings: dict[_Opening, int]


def fit(
    state: Sequence[str], room: int, known: Iterable[str] = (), language: str = "en"
) -> FittedState:
    """What of a state stands in `room` tokens.

    Where not all does, those clauses and fenced blocks stay that say most for their length which
    is not said yet: neither by others that stay nor by `known`. Before all others stand blocks of
    up to half the room: nobody can write code or a draft anew from words. A head stands with what
    is below it. What is given up is told the least first.
    """
    whole = split_blocks(state)
    if sum(map(count_tokens, whole)) <= room:
        return FittedState(whole, [])
    parts = _split_parts(whole, language)
    told = set(chain.from_iterable(map(find_terms, known)))
    best_first = [(-_weigh_part(part, told, room), part.place, part) for part in parts]
    heapify(best_first)
    kept: list[_Part] = []
    given_up: list[str] = []
    begun: set[_Opening] = set()
    left = room
    while best_first:
        _, place, part = heappop(best_first)
        # What was kept since may say the same.
        now = -_weigh_part(part, told, room)
        if best_first and now > best_first[0][0]:
            heappush(best_first, (now, place, part))
            continue
        cost = part.size + sum(part.openings[one] for one in part.openings.keys() - begun)
        if cost <= left:
            left -= cost
            begun |= part.openings.keys()
            told |= part.terms
            kept.append(part)
        else:
            given_up.append(part.text)
    return FittedState(_rebuild(whole, kept, begun), given_up[::-1])


def _split_parts(whole: Sequence[Block], language: str) -> Iterator[_Part]:
    """The parts of a state in order."""
    places = count()
    above: dict[_Opening, int] = {}
    for number, block in enumerate(whole):
        if block[0].startswith(HEAD):
            above = {number: count_tokens(block)}
        elif is_code(block):
            text = "\n".join(block)
            size = count_tokens(block)
            yield _Part(
                next(places), number, 0, "", text, size, find_terms(text), above | {number: 0}
            )
        else:
            yield from _split_line(block[0], number, places, above, language)


def _split_line(
    line: str, block: int, places: Iterator[int], above: dict[_Opening, int], language: str
) -> Iterator[_Part]:
    """The clauses of the line that is this block; `above` is the head over it."""
    for sentence, words in enumerate(sentences.split_sentences(line.removeprefix(ITEM), language)):
        labelled = _LABEL.match(words)
        label = labelled[0] if labelled else ""
        openings = above | {block: _LINE, (block, sentence): tokens.count(label)}
        for clause in _CLAUSE.split(words.removeprefix(label)):
            # A blank stands before it.
            size = tokens.count(f" {clause}")
            told = find_terms(clause)
            yield _Part(next(places), block, sentence, label, clause, size, told, openings)


def _weigh_part(part: _Part, told: Set[str], room: int) -> float:
    """What a part says for a token that is not told yet."""
    if part.text.startswith(FENCE) and 2 * part.size <= room:
        return inf
    new = part.terms - told
    return sum(_EXACT if is_exact(term) else 1 for term in new) / part.size


def _rebuild(
    whole: Sequence[Block], parts: Iterable[_Part], begun: Container[_Opening]
) -> list[Block]:
    """The blocks of these parts, and the heads that stand above them, in order."""
    words: dict[int, list[str]] = {}
    labelled: set[tuple[int, int]] = set()
    for part in sorted(parts, key=lambda part: part.place):
        sentence = part.block, part.sentence
        label = "" if sentence in labelled else part.label
        labelled.add(sentence)
        words.setdefault(part.block, []).append(label + part.text)
    kept: list[Block] = []
    for number, block in enumerate(whole):
        if number not in begun:
            continue
        if block[0].startswith(HEAD) or is_code(block):
            kept.append(block)
        else:
            mark = ITEM if block[0].startswith(ITEM) else ""
            kept.append((mark + " ".join(words[number]),))
    return kept
