"""Finds the passages of a text: a row, a record of several lines, or a sentence. Pure, linear.

A passage is found and shown as one, because its words belong together.
"""

import re
from collections.abc import Iterator

LONGEST = 600  # characters of a passage; a longer record or sentence is several
_ROW = 240  # characters up to which a line of a result is one row, whatever signs it has
# The sign at the end of a sentence, or of a record that another one follows in the same line.
_END = re.compile(r"[.!?…؟।]\s++|[。！？](?!\s)|[}\]],\s{0,8}(?=[{\[])")
# A line such as `status: paid`, `- status: paid` or `"status": "paid",`.
_FIELD = re.compile(
    r"[ \t-]{0,60}+[\"']?(?P<key>[^\W\d_][\w-]{0,40}+(?: [^\W\d_][\w-]{0,40}+){0,5})"
    r"[\"']? ?[:=](?!\S)"
)
_WORD = re.compile(r"\w")


def find_passages(text: str, *, is_speech: bool) -> list[slice]:
    """The places of the passages of a text, in their order.

    Args:
        text: a message's own words, or a result of a tool.
        is_speech: whether each sentence is a passage. Of a result, only long lines are cut.
    """
    row = 0 if is_speech else _ROW
    passages: list[slice] = []
    # The keys of the record that the last passage is, each with the column where it begins.
    keys = set[tuple[int, str]]()
    for line in iterate_lines(text):
        field = _FIELD.match(text, line.start, line.stop)
        key = (field.start("key") - line.start, field["key"]) if field else None
        # A key that the record has already begins the next record.
        is_inside = key not in keys if key else _has_only_signs(text[line])
        if keys and is_inside and line.stop - passages[-1].start <= LONGEST:
            passages[-1] = slice(passages[-1].start, line.stop)
        else:
            passages.extend(_split_line(text, line, row))
            keys = set()
        if key:
            keys.add(key)
    return passages


def iterate_lines(text: str) -> Iterator[slice]:
    """Yields the places of the lines of a text. Line ends belong to no line."""
    start = 0
    for line in text.split("\n"):
        yield slice(start, start + len(line))
        start += len(line) + 1


def _has_only_signs(line: str) -> bool:
    """Whether a line is, for example, the bracket at the end of a record."""
    return bool(line.strip()) and not _WORD.search(line)


def _split_line(text: str, line: slice, row: int) -> Iterator[slice]:
    """Yields a line of at most `row` characters whole, and a longer one by sentence or record."""
    start = line.start
    if line.stop - start > row:
        for end in _END.finditer(text, line.start, line.stop):
            sign = end.start()
            if text[sign] != "." or _ends_sentence(text, sign):
                yield from split_evenly(slice(start, sign + 1), LONGEST)
                start = end.end()
    if start < line.stop or start == line.start:
        yield from split_evenly(slice(start, line.stop), LONGEST)


def _ends_sentence(text: str, point: int) -> bool:
    """Whether no abbreviation or ordinal stands before a point, such as `St.` or `2.`."""
    before = text[max(point - 3, 0) : point]
    is_long_word = before.isalnum() and len(before) == 3
    return is_long_word or not before[-1:].isalnum()


def split_evenly(place: slice, longest: int) -> Iterator[slice]:
    """Yields a place of a text, in several pieces if it has more than `longest` characters."""
    # An empty place is one piece, too.
    for begin in range(place.start, max(place.stop, place.start + 1), longest):
        yield slice(begin, min(begin + longest, place.stop))
