"""Whose words a text has: a speaker's own, pasted ones, or code. Told by form alone, in any language. Pure.

An order in a forwarded mail is not the user's order, and a log has no sentences. Nothing here looks
for words: fences, tags, quotation marks, heads of mails and the density of signs tell.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, groupby
from operator import itemgetter


class Sort(StrEnum):
    """What a part of a text is."""

    OWN = "own"
    DOCUMENT = "document"  # below a line that announces it; of the speaker, or of somebody else
    PASTED = "pasted"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text as it stands there."""

    text: str
    sort: Sort


_FENCE = re.compile(r"^[ \t]{0,8}(```|~~~)", re.MULTILINE)
_OPENING = re.compile(
    r"<(?P<tag>[a-z][\w:-]{0,60})(?:\s[^<>]{0,400})?>|(?P<comment><!--)", re.IGNORECASE
)
_CLOSING = re.compile(r"</(?P<tag>[a-z][\w:-]{0,60})\s{0,8}>", re.IGNORECASE)
_QUOTES = re.compile(r"\"{3}|'{3}")
_LONG_QUOTATION = 300  # characters between one pair of quotation marks
_QUOTATION_MARKS = (("“", "”"), ("«", "»"), ("„", "“"), ("「", "」"))
_HEAD_LINE = re.compile(r"[ \t>*]{0,8}[^\W\d_][\w -]{0,30}:[ \t]\S")
_IN_MAIL_HEADS = re.compile(r"\S@\S|\d{1,2}:\d\d|\d{4}")
_MAIL_HEADS = 3  # lines `Name: value` one below the other, one with an address and one with a time
_SEPARATOR = re.compile(
    r"^[-_=*]{3,20}[ \t]?[^\W\d_][^\n]{0,60}[-_=*]{3,20}[ \t]*\n(?=[^\W\d_][\w -]{0,30}:[ \t]\S)",
    re.MULTILINE,
)
_TURN = re.compile(
    r"^[ \t]{0,4}\*{0,2}(?P<role>user|assistant|system|human|ai)\*{0,2}:\*{0,2}[ \t]",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = re.compile(r"^\[[^\[\]\n]{2,60}\][ \t]*\n(?=[ \t]{0,8}[{\[])", re.MULTILINE)
_GREETING = 60  # characters of a line that ends with a comma, above a mail
_SIGNATURE = 60
_LETTER = 5  # lines that it has at least
_ANNOUNCED = re.compile(r"[:：][ \t]*\n(?:[ \t]*\n){1,3}(?=#{1,6}[ \t]+\S)")
_HEADING = re.compile(r"^#{1,6}[ \t]+\S", re.MULTILINE)
_QUOTED_LINE = re.compile(r"[ \t]{0,8}(?:>|\|[ \t])")
_PROMPT = re.compile(
    r"[ \t]{0,8}(?:[$%#]|>>>|\.\.\.|PS [A-Z]:[^>\n]{0,200}>|[\w.-]{1,60}@[\w.-]{1,60}:[^$#\n]{0,200}[$#])[ \t]"
)
_STAMP = re.compile(r"[ \t\[]{0,4}(?:\d{4}-\d\d-\d\d|\d\d/\d\d/\d{4}|\d\d:\d\d:\d\d)[T \]\t,.]")
_TRACE = re.compile(
    r"[ \t]{1,16}(?:at [\w$.<>]{2,200}[(:]|File \"[^\"\n]{1,300}\", line \d)|Traceback \("
)
_SIGNS = frozenset('{}[]()<>=;|\\/_$&*+@#^~`"')
_DENSE = 0.12  # of the characters of a line that are signs
_ENDS = ("{", "}", ";", "(", "[", "),", "},", "],", "->", "=>", "&&", "||", "\\", "*/", ">")
_STATEMENT = ("{", "}", ";")  # end a line of many languages, and hardly one of prose
_RUN = 3  # lines in a row that have the form of code
_GAP = 3  # lines among them that have not


def blocks(text: str, *, by_user: bool) -> list[Block]:
    """The parts of a text, in order; joined by line breaks they are about the text again.

    `by_user`: people paste without saying so; an assistant's prose and tables are its own.
    """
    spans = sorted([*_fenced(text), *(_foreign(text) if by_user else ())])
    document = _document(text) if by_user else len(text)
    found: list[Block] = []
    position = 0
    for begin, end, sort in spans:
        if begin < position:  # inside the one before
            continue
        found += _unmarked(text, position, begin, document, by_user=by_user)
        found.append(Block(text[begin:end], sort))
        position = end
    found += _unmarked(text, position, len(text), document, by_user=by_user)
    return [one for one in found if one.text.strip()]


_Span = tuple[int, int, Sort]


def _fenced(text: str) -> Iterator[_Span]:
    """Between fences; an open one goes to the end."""
    open_at, mark = -1, ""
    for fence in _FENCE.finditer(text):
        if open_at < 0:
            open_at, mark = fence.start(), fence[1]
        elif fence[1] == mark:
            line_end = text.find("\n", fence.end())
            yield open_at, line_end if line_end >= 0 else len(text), Sort.CODE
            open_at = -1
    if open_at >= 0:
        yield open_at, len(text), Sort.CODE


def _foreign(text: str) -> Iterator[_Span]:
    yield from _elements(text)
    quotes = list(_QUOTES.finditer(text))
    for begin, end in zip(quotes[::2], quotes[1::2], strict=False):
        yield begin.start(), end.end(), Sort.PASTED
    for opening, closing in _QUOTATION_MARKS:
        yield from _quotations(text, opening, closing)
    yield from _exported(text)
    yield from _labelled(text)
    if (place := _mail(text)) is not None:
        yield place, len(text), Sort.PASTED


def _quotations(text: str, opening: str, closing: str) -> Iterator[_Span]:
    """What stands between a pair of quotation marks and is too long to be a name or a phrase."""
    begin = text.find(opening)
    while begin >= 0 and (end := text.find(closing, begin + 1)) >= 0:
        if end - begin > _LONG_QUOTATION:
            yield begin, end + 1, Sort.PASTED
        begin = text.find(opening, end + 1)


def _elements(text: str) -> Iterator[_Span]:
    """Elements of markup, each from its opening tag to the first closing tag of its name."""
    if "<" not in text:
        return
    closing = defaultdict[str, list[int]](list)
    for found in _CLOSING.finditer(text):
        closing[found["tag"].lower()].append(found.end())
    last_comment = text.rfind("-->")
    position = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < position:
            continue
        if opening["comment"]:
            if last_comment < opening.end():
                continue
            position = text.index("-->", opening.end()) + len("-->")
        else:
            ends = closing.get(opening["tag"].lower(), [])
            nearest = bisect_left(ends, opening.end())
            if nearest == len(ends):
                continue
            position = ends[nearest]
        yield opening.start(), position, Sort.PASTED


def _exported(text: str) -> Iterator[_Span]:
    """A chat that another program wrote down: lines of several roles, from the first to the last."""
    turns = list(_TURN.finditer(text))
    if len({turn["role"].lower() for turn in turns}) > 1:
        end = text.find("\n", turns[-1].end())
        yield turns[0].start(), end if end >= 0 else len(text), Sort.PASTED


def _labelled(text: str) -> Iterator[_Span]:
    """A label in brackets on a line of its own and what stands below it, up to a blank line."""
    end = 0
    for label in _LABEL.finditer(text):
        if label.start() < end:
            continue
        found = text.find("\n\n", label.end())
        end = found if found >= 0 else len(text)
        yield label.start(), end, Sort.PASTED


def _mail(text: str) -> int | None:
    """From where on a text is a mail: from its heads on, or from a greeting below other text."""
    if separator := _SEPARATOR.search(text):
        return separator.start()
    lines = text.splitlines(keepends=True)
    starts = accumulate(map(len, lines), initial=0)
    written = [(start, line) for start, line in zip(starts, lines, strict=False) if line.strip()]
    for is_head, run in groupby(written, key=lambda one: bool(_HEAD_LINE.match(one[1]))):
        heads = list(run)
        if is_head and _of_a_mail([line for _, line in heads]):
            return heads[0][0]
    return _letter([(start, line.strip()) for start, line in written])


def _of_a_mail(heads: Sequence[str]) -> bool:
    """Whether lines `Name: value` are those of a mail: an address among them, and a time or a second one."""
    told = sum(bool(_IN_MAIL_HEADS.search(line)) for line in heads)
    return len(heads) >= _MAIL_HEADS and told > 1 and any("@" in line for line in heads)


def _letter(lines: Sequence[tuple[int, str]]) -> int | None:
    """A greeting with a comma below other text, and a closing with a comma and a name at the end."""
    if len(lines) < _LETTER:
        return None
    closing, name = lines[-2][1], lines[-1][1]
    if not closing.endswith(",") or max(len(closing), len(name)) > _SIGNATURE:
        return None
    greetings = (
        start
        for start, line in lines[1:-3]
        if line.endswith((",", "，")) and len(line) <= _GREETING
    )
    return next(greetings, None)


def _document(text: str) -> int:
    """Where a text with several headings begins below a line that announces it; the end for none."""
    announced = _ANNOUNCED.search(text)
    if announced and len(_HEADING.findall(text, announced.end())) > 1:
        return announced.end()
    return len(text)


def _unmarked(text: str, begin: int, end: int, document: int, *, by_user: bool) -> Iterator[Block]:
    """What has no marks around it, above and below the place where a document begins."""
    border = min(max(begin, document), end)
    yield from _by_lines(text[begin:border], by_user=by_user)
    for one in _by_lines(text[border:end], by_user=by_user):
        yield Block(one.text, Sort.DOCUMENT) if one.sort is Sort.OWN else one


def _by_lines(text: str, *, by_user: bool) -> list[Block]:
    """Takes quoted lines and runs of code out of what has no marks around it."""
    lines = text.splitlines()
    sorts = _smoothed([_sort(line, by_user=by_user) for line in lines])
    runs = groupby(zip(sorts, lines, strict=True), key=itemgetter(0))
    return [Block("\n".join(line for _, line in run), sort) for sort, run in runs]


def _sort(line: str, *, by_user: bool) -> Sort:
    if not by_user:  # an assistant fences its code; what it ran has a bar before each line
        return Sort.CODE if line.startswith("| ") and not line.rstrip().endswith("|") else Sort.OWN
    if _QUOTED_LINE.match(line):
        return Sort.PASTED
    if _PROMPT.match(line) or _STAMP.match(line) or _TRACE.match(line):
        return Sort.CODE
    return Sort.CODE if _dense(line) else Sort.OWN


def _dense(line: str) -> bool:
    """Whether a line has the signs of code: many of them, or one at its end and some more."""
    words = line.strip()
    if len(words) < 2:
        return words in _SIGNS
    signs = sum(character in _SIGNS for character in words[:400])
    share = signs / min(len(words), 400)
    chained = " " not in words and words.endswith((",", ")")) and words.count(".") > 1  # `a.b.c(),`
    return (
        share >= _DENSE
        or chained
        or words.endswith(_STATEMENT)
        or (words.endswith(_ENDS) and signs > 1)
    )


def _smoothed(sorts: Sequence[Sort]) -> list[Sort]:
    """Runs of code with what stands between their lines; a line or two is no more than words with signs."""
    smooth: list[Sort] = [Sort.OWN if sort is Sort.CODE else sort for sort in sorts]
    places = [place for place, sort in enumerate(sorts) if sort is Sort.CODE]
    begin = 0
    for index in range(1, len(places) + 1):
        if index < len(places) and places[index] - places[index - 1] <= _GAP + 1:
            continue
        if index - begin >= _RUN:
            smooth[places[begin] : places[index - 1] + 1] = [Sort.CODE] * (
                places[index - 1] + 1 - places[begin]
            )
        begin = index
    return smooth
