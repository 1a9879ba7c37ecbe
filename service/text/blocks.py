"""Separates a speaker's own words from pasted text and code, in any language. Pure.

An order in a quoted mail is not the user's order, and a log has no sentences. Nothing here looks
for words: fences, tags, quotation marks and the density of signs decide. What is pasted without any
of these counts as the speaker's own.
"""

import re
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from service.text.sentences import is_item, is_row


class TextOrigin(StrEnum):
    """The origin of a part of a text."""

    OWN = "own"
    PASTED = "pasted"
    CODE = "code"


class Block(NamedTuple):
    """A part of a text as it stands there."""

    text: str
    sort: TextOrigin


# Gaps in these patterns are bounded: one that may be endless costs quadratic time in hostile texts.
_FENCE = re.compile(r"^[ \t]{0,8}(```|~~~)", re.MULTILINE)
_OPENING = re.compile(
    r"<(?P<tag>[a-z][\w:-]{0,60})(?:\s[^<>]{0,400})?>|(?P<comment><!--)", re.IGNORECASE
)
_MOST_UNCLOSED = 40  # names of tags; a text with more has no markup
# Triple marks quote whatever their length; single ones only from a length that no phrase has.
_QUOTED = re.compile(
    r"\"{3}(?:(?!\"{3}).)*+\"{3}|'{3}(?:(?!'{3}).)*+'{3}|“[^“”]{300,}+”|„[^„“”]{300,}+[“”]"
    r"|«[^«»]{300,}+»|「[^「」]{300,}+」",
    re.DOTALL,
)
_QUOTED_LINE = re.compile(r"[ \t]{0,8}>")
# A sign inside a word, as identifiers, paths and frames of a console have: not in numbers alone.
_SIGN_INSIDE = re.compile(r"[^\W\d]\w{0,40}[-:/.@]\w|\w[-:/.@]\w{0,40}[^\W\d]")
_WORD = re.compile(r"\w+")
_OF_ONE_SHAPE = 3  # lines that nobody writes by hand
# Lines of a terminal, of a log and of a stack trace.
_OUTPUT = re.compile(
    r"[ \t]{0,8}(?:[$%#]|>>>|\.\.\.|PS [A-Z]:[^>\n]{0,200}>"
    r"|[\w.-]{1,60}@[\w.-]{1,60}:[^$#\n]{0,200}[$#])[ \t]"
    r"|[ \t\[]{0,4}(?:\d{4}-\d\d-\d\d|\d\d/\d\d/\d{4}|\d\d:\d\d:\d\d)[T \]\t,.]"
    r"|[ \t]{1,16}(?:at [\w$.<>]{2,200}[(:]|File \"[^\"\n]{1,300}\", line \d)|Traceback \("
)
_SIGNS = frozenset('{}[]()<>=;|\\/_$&*+@#^~`"')
_DENSE = 0.12  # share of signs from which a line is code
_LINE_READ = 400  # characters of a line whose signs are counted: its beginning says enough
_STATEMENT = ("{", "}", ";")  # end a line of many languages, and hardly one of prose
_ENDS = ("(", "[", "),", "},", "],", "->", "=>", "&&", "||", "\\", "*/", ">")
# Three lines that look like code (`c`) are code, with up to three others between two, such as
# comments and blank lines. Fewer such lines are words with signs.
_CODE_RUN = re.compile(r"c(?:[^c]{0,3}c){2,}")


def split_blocks(text: str, *, by_user: bool) -> list[Block]:
    """Splits a text by origin; joined by line breaks, the parts are about the text again.

    Only texts of users are searched for pasted parts: an assistant's prose and tables are its own.
    """
    found: list[Block] = []
    position = 0
    for begin, end, sort in _find_marked(text, by_user=by_user):
        found += _split_lines(text[position:begin], by_user=by_user)
        found.append(Block(text[begin:end], sort))
        position = end
    found += _split_lines(text[position:], by_user=by_user)
    return [block for block in found if block.text.strip()]


_Span = tuple[int, int, TextOrigin]
"""Begin, end and origin of a part."""


def _find_marked(text: str, *, by_user: bool) -> Iterator[_Span]:
    """Yields the parts with marks around them, in order, without those inside others."""
    spans = list(_find_fenced(text))
    if by_user:
        spans += _find_elements(text)
        spans += [(*quoted.span(), TextOrigin.PASTED) for quoted in _QUOTED.finditer(text)]
    position = 0
    for begin, end, sort in sorted(spans):
        if begin >= position:
            yield begin, end, sort
            position = end


def _find_fenced(text: str) -> Iterator[_Span]:
    """Yields the parts between fences; behind an open fence, the rest of the text."""
    open_at, mark = -1, ""
    for fence in _FENCE.finditer(text):
        if open_at < 0:
            open_at, mark = fence.start(), fence[1]
        elif fence[1] == mark:
            yield open_at, _find_line_end(text, fence.end()), TextOrigin.CODE
            open_at = -1
    if open_at >= 0:
        yield open_at, len(text), TextOrigin.CODE


def _find_line_end(text: str, begin: int) -> int:
    place = text.find("\n", begin)
    return place if place >= 0 else len(text)


def _find_elements(text: str) -> Iterator[_Span]:
    """Yields elements of markup, from an opening tag to the next closing tag of its name."""
    unclosed: set[str] = set()
    position = 0
    for opening in _OPENING.finditer(text):
        closing = f"</{opening['tag']}>" if opening["tag"] else "-->"
        if opening.start() < position or closing in unclosed:  # inside the one before
            continue
        end = text.find(closing, opening.end())
        if end >= 0:
            position = end + len(closing)
            yield opening.start(), position, TextOrigin.PASTED
            continue
        # To look for an end behind each tag would be quadratic in tags that nothing closes.
        unclosed.add(closing)
        if len(unclosed) > _MOST_UNCLOSED:
            return


def _split_lines(text: str, *, by_user: bool) -> list[Block]:
    """Splits text without marks around it into own words, quoted lines and runs of code."""
    lines = text.splitlines()
    shapes = [_find_shape(line) if by_user else "" for line in lines]
    counts = Counter(filter(None, shapes))
    forms = "".join(
        "c" if counts[shape] >= _OF_ONE_SHAPE else _find_form(line, by_user=by_user)
        for line, shape in zip(lines, shapes, strict=True)
    )
    forms = _CODE_RUN.sub(lambda run: "C" * len(run[0]), forms)
    sorts = {"C": TextOrigin.CODE, ">": TextOrigin.PASTED}
    placed = (
        (sorts.get(form, TextOrigin.OWN), line) for form, line in zip(forms, lines, strict=True)
    )
    runs = groupby(placed, key=itemgetter(0))
    return [Block("\n".join(line for _, line in run), sort) for sort, run in runs]


def _find_shape(line: str) -> str:
    """Finds the signs of a line between its words; "" for an item of a list and for prose."""
    if is_item(line) or not _SIGN_INSIDE.search(line[:_LINE_READ]):
        return ""
    return _WORD.sub("w", line[:_LINE_READ].strip())


def _find_form(line: str, *, by_user: bool) -> str:
    """Finds the form of a line: `>` for quoted, `c` for what looks like code, or `.` for words."""
    if not by_user:
        # An assistant fences its code; what it ran has a bar before each line. A bar at the end
        # as well is a table.
        ran = line.startswith("| ") and not line.rstrip().endswith("|")
        return "c" if ran else "."
    if _QUOTED_LINE.match(line):
        return ">"
    if is_row(line):
        return "."
    return "c" if _OUTPUT.match(line) or _is_dense(line) else "."


def _is_dense(line: str) -> bool:
    """Whether a line has the signs of code: many of them, or one at its end and some more."""
    words = line.strip()
    if len(words) < 2:
        return words in _SIGNS
    read = words[:_LINE_READ]
    signs = sum(character in _SIGNS for character in read)
    if signs / len(read) >= _DENSE or words.endswith(_STATEMENT):
        return True
    return words.endswith(_ENDS) and signs > 1
