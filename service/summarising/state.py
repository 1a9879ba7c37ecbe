"""A model's state, line by line: how it is stored and shown, and what goes for want of room. Pure.

A line is a head behind `## `, an item behind `- `, or plain words on one line. What stands between
two fence lines is code or a draft: it is stored and shown as it was written, blanks included.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from service.summarising import heads
from service.summarising.markup import harmless, quoted, unmarked
from service.text import sentences, tokens
from service.text.terms import is_exact, terms

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


def parse(raw: Iterable[str]) -> tuple[str, ...]:
    """Raw lines as a state is stored: without blank lines and rulers, what is fenced as it is."""
    state: list[str] = []
    for segment in split_segments(raw):
        if segment.fence is None:
            state += [parse_line(line) for line in segment.lines if says_something(line)]
        else:
            state += fence(segment)
    return tuple(state)


def says_something(raw: str) -> bool:
    """Whether a line outside of a fence is neither blank nor a ruler."""
    return bool(raw.strip(_AROUND)) and not _RULER.match(raw)


def parse_line(raw: str) -> str:
    """A line with the marks that a state has: `## ` before a head, `- ` before an item."""
    bare = _POINTER.sub("", raw)
    if _HEAD.match(bare):
        return HEAD + without_marks(bare).strip().strip(_AROUND).rstrip(":：")
    words = " ".join(_ITEM.sub("", bare).split())
    return ITEM + words if _ITEM.match(bare) else words


def without_marks(raw: str) -> str:
    """A line without the marks of an item, a head or an emphasis before its words."""
    return _MARKS.sub("", raw, count=1)


def fence(segment: Segment) -> Block:
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
    code = (f"“{line}”" if heads.imitates_ours(line) else quoted(line) for line in block[1:-1])
    return (block[0], *code, FENCE)


def _render_line(line: str) -> str:
    """A line that imitates a head of ours is quoted words."""
    is_head, is_item = line.startswith(HEAD), line.startswith(ITEM)
    bare = line.removeprefix(HEAD if is_head else ITEM)
    words = harmless(unmarked(bare))
    if heads.imitates_ours(words):
        is_head, words = False, f"“{words}”"
    mark = f"#{HEAD}" if is_head else ITEM if is_item else ""
    return mark + words


def count_tokens(block: Block) -> int:
    """Tokens of a block as it is shown."""
    return sum(tokens.count(line) + _LINE for line in render(block))


class FittedState(NamedTuple):
    """The blocks that have room, in order, and the sentences and blocks that were given up."""

    kept: list[Block]
    given_up: list[str]


def fit(
    state: Sequence[str], room: int, known: Iterable[str] = (), language: str = "en"
) -> FittedState:
    """What of a state stands in `room` tokens.

    Where not all does, the sentences and fenced blocks go first that say least for their length
    which nothing else says: neither the rest of the state nor `known`. A head goes with the last
    line below it.
    """
    whole = split_blocks(state)
    surplus = sum(map(count_tokens, whole)) - room
    if surplus <= 0:
        return FittedState(whole, [])
    parts = _split_parts(whole, language)
    least_first = _rank_parts(parts, known)
    kept, count = whole, 0
    # Sentences that are joined cost less than each by itself, so what is left is measured again.
    while surplus > 0 and count < len(least_first):
        while surplus > 0 and count < len(least_first):
            surplus -= least_first[count].size
            count += 1
        gone = set(least_first[:count])
        kept = _rebuild(whole, [part for part in parts if part not in gone])
        surplus = sum(map(count_tokens, kept)) - room
    return FittedState(kept, [part.text for part in least_first[:count]])


class _Part(NamedTuple):
    """A sentence of a line, or a whole fenced block: what goes or stays as one."""

    block: int
    place: int
    text: str
    size: int


def _split_parts(whole: Sequence[Block], language: str) -> list[_Part]:
    parts: list[_Part] = []
    for number, block in enumerate(whole):
        line = block[0]
        if line.startswith(HEAD):
            continue
        if is_code(block):
            parts.append(_Part(number, 0, "\n".join(block), count_tokens(block)))
            continue
        for place, sentence in enumerate(sentences.of_line(line.removeprefix(ITEM), language)):
            parts.append(_Part(number, place, sentence, tokens.count(sentence) + 1))
    return parts


def _rank_parts(parts: Sequence[_Part], known: Iterable[str]) -> list[_Part]:
    tellers = Counter[str]()
    for text in (*known, *(part.text for part in parts)):
        tellers.update(terms(text))

    def worth(part: _Part) -> float:
        alone = [term for term in terms(part.text) if tellers[term] == 1]
        return sum(_EXACT if is_exact(term) else 1 for term in alone) / part.size

    return sorted(parts, key=worth)


def _rebuild(whole: Sequence[Block], parts: Sequence[_Part]) -> list[Block]:
    """The blocks of what stays; a head only where something stands below it."""
    standing: dict[int, list[str]] = {}
    for part in parts:
        standing.setdefault(part.block, []).append(part.text)
    kept: list[Block] = []
    for number, block in enumerate(whole):
        if block[0].startswith(HEAD):
            _drop_empty_head(kept)
            kept.append(block)
        elif number in standing and is_code(block):
            kept.append(block)
        elif number in standing:
            mark = ITEM if block[0].startswith(ITEM) else ""
            kept.append((mark + " ".join(standing[number]),))
    _drop_empty_head(kept)
    return kept


def _drop_empty_head(kept: list[Block]) -> None:
    if kept and kept[-1][0].startswith(HEAD):
        kept.pop()
