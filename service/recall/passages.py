"""The passages of a text: a row, a record of several lines, or a sentence. Pure, linear.

A passage is found and shown as one, because the words in it belong together.
"""

import re
from collections.abc import Iterator

LONGEST = 600  # characters of a passage; a record or a sentence that is longer is several
_ROW = 240  # characters of a line of a result that is one row, whatever signs are in it
# A sign at the end of a sentence, or of a record with another behind it in the same line.
_END = re.compile(r"[.!?…؟।]\s++|[。！？](?!\s)|[}\]],\s{0,8}(?=[{\[])")
# A line such as `status: paid`, `- status: paid` or `"status": "paid",`.
_FIELD = re.compile(
    r"[ \t-]{0,60}+[\"']?(?P<key>[^\W\d_][\w-]{0,40}+(?: [^\W\d_][\w-]{0,40}+){0,5})"
    r"[\"']? ?[:=](?!\S)"
)
_WORD = re.compile(r"\w")


def passages(text: str, *, said: bool) -> list[slice]:
    """Where the passages of a text stand, in their order.

    Args:
        text: what was said, or a result of a tool.
        said: each of its sentences is a passage; of a result, only those of long lines.
    """
    row = 0 if said else _ROW
    found: list[slice] = []
    keys = set[tuple[int, str]]()  # of the record that the last passage is, with their columns
    for line in _lines(text):
        field = _FIELD.match(text, line.start, line.stop)
        key = (field.start("key") - line.start, field["key"]) if field else None
        # A key that comes again begins the next record.
        continues = key not in keys if key else _has_only_signs(text[line])
        if keys and continues and line.stop - found[-1].start <= LONGEST:
            found[-1] = slice(found[-1].start, line.stop)
        else:
            found += _cut(text, line, row)
            keys = set()
        if key:
            keys.add(key)
    return found


def _lines(text: str) -> Iterator[slice]:
    start = 0
    for line in text.split("\n"):
        yield slice(start, start + len(line))
        start += len(line) + 1


def _has_only_signs(line: str) -> bool:
    """Whether a line is, for example, the bracket at the end of a record."""
    return bool(line.strip()) and not _WORD.search(line)


def _cut(text: str, line: slice, row: int) -> Iterator[slice]:
    """A line of at most `row` characters as it is, the sentences or records of a longer one."""
    start = line.start
    if line.stop - start > row:
        for end in _END.finditer(text, line.start, line.stop):
            sign = end.start()
            if text[sign] != "." or _ends_a_sentence(text, sign):
                yield from _pieces(start, sign + 1)
                start = end.end()
    if start < line.stop or start == line.start:
        yield from _pieces(start, line.stop)


def _ends_a_sentence(text: str, point: int) -> bool:
    """Whether no abbreviation or ordinal stands before a point, such as `St.` or `2.`."""
    before = text[max(point - 3, 0) : point]
    return (before.isalnum() and len(before) == 3) or not before[-1:].isalnum()


def _pieces(start: int, stop: int) -> Iterator[slice]:
    for piece in range(start, max(stop, start + 1), LONGEST):
        yield slice(piece, min(piece + LONGEST, stop))
