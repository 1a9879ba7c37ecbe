"""A model's state, line by line: its stored and its shown form, and its choice for a room. Pure.

A line is a head behind `## `, an item behind `- `, or plain words on one line. What stands between
two fence lines is code or a draft: it is stored and shown as it was written, blanks included.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from heapq import heappop, heappush
from itertools import chain
from math import inf
from typing import NamedTuple

from service.summarising import heads
from service.summarising.markup import make_harmless, quote_code, quote_marks
from service.text import tokens
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
    """A state within some room."""

    kept: list[Block]
    #: Blocks that have none, the least telling first.
    given_up: list[str]


class _Line(NamedTuple):
    """A line or a fenced block, which stays or goes as a whole."""

    place: int
    #: Place of the head that stands above it.
    head: int | None
    #: Tokens.
    size: int
    terms: frozenset[str]
    is_code: bool


def fit(state: Sequence[str], room: int, known: Iterable[str] = ()) -> FittedState:
    """Chooses the lines of a state that stand in `room` tokens.

    A line counts by what it says for its length that neither `known` nor a chosen line says. Code
    of up to half the room comes first, because nobody can write it again from words. A head stays
    where a line below it does.
    """
    blocks = split_blocks(state)
    sizes = list(map(count_tokens, blocks))
    if sum(sizes) <= room:
        return FittedState(blocks, [])
    told = set(chain.from_iterable(map(find_terms, known)))
    waiting: list[tuple[float, int, _Line]] = []
    for line in _list_lines(blocks, sizes):
        heappush(waiting, (-_weigh_line(line, told, room), line.place, line))
    kept: set[int] = set()
    given_up: list[str] = []
    left = room
    while waiting:
        line = _pop_best(waiting, told, room)
        needed = {line.place} if line.head is None else {line.place, line.head} - kept
        cost = sum(sizes[one] for one in needed)
        if cost <= left:
            left -= cost
            kept |= needed
            told |= line.terms
        else:
            given_up.append("\n".join(blocks[line.place]).removeprefix(ITEM))
    shown = [block for place, block in enumerate(blocks) if place in kept]
    return FittedState(shown, given_up[::-1])


def _pop_best(waiting: list[tuple[float, int, _Line]], told: Set[str], room: int) -> _Line:
    """Takes the line out of the heap that says most beside what was told since it was put there."""
    while True:
        _, place, line = heappop(waiting)
        rank = -_weigh_line(line, told, room)
        if not waiting or rank <= waiting[0][0]:
            return line
        heappush(waiting, (rank, place, line))


def _list_lines(blocks: Sequence[Block], sizes: Sequence[int]) -> Iterator[_Line]:
    """Yields the blocks of a state that are no heads."""
    head: int | None = None
    for place, block in enumerate(blocks):
        if block[0].startswith(HEAD):
            head = place
            continue
        terms = find_terms("\n".join(block))
        yield _Line(place, head, sizes[place], terms, is_code(block))


def _weigh_line(line: _Line, told: Set[str], room: int) -> float:
    """Rates a line by the terms that nothing has told yet, for each of its tokens."""
    if line.is_code and 2 * line.size <= room:
        return inf
    new = line.terms - told
    worth = sum(_EXACT if is_exact(term) else 1 for term in new)
    return worth / line.size
