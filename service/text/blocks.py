"""Separates a speaker's own words from pasted text and code, in any language. Pure.

An order in a forwarded mail is not the user's order, and a log has no sentences. Nothing here looks
for words: fences, tags, quotation marks, mail headers and the density of signs decide. `pasted`
finds what has no such marks.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, groupby, islice
from operator import itemgetter

from service.text import pasted


class Sort(StrEnum):
    """What a part of a text is."""

    OWN = "own"
    DOCUMENT = "document"  # pasted by all that its form says; its sentences stand, and bind nobody
    PASTED = "pasted"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text as it stands there."""

    text: str
    sort: Sort


# Gaps in these patterns are bounded: one that may be endless costs quadratic time in hostile texts.
_FENCE = re.compile(r"^[ \t]{0,8}(```|~~~)", re.MULTILINE)
_OPENING = re.compile(
    r"<(?P<tag>[a-z][\w:-]{0,60})(?:\s[^<>]{0,400})?>|(?P<comment><!--)", re.IGNORECASE
)
_CLOSING = re.compile(r"</(?P<tag>[a-z][\w:-]{0,60})\s{0,8}>", re.IGNORECASE)
# Triple marks quote whatever their length; single ones only from a length that no phrase has.
_QUOTES = re.compile(r"\"{3}|'{3}")
_LONG_QUOTATION = 300  # characters between one pair of quotation marks
_QUOTATION_MARKS = (("“", "”"), ("«", "»"), ("„", "“"), ("「", "」"))
# `From: Ann <ann@example.org>`, and what tells such a line of a mail from a note: address or time.
_HEAD_LINE = re.compile(r"[ \t>*]{0,8}[^\W\d_][\w -]{0,30}(?::[ \t]|：)\S")
_IN_MAIL_HEADS = re.compile(r"\S@\S|\d{1,2}:\d\d|\d{4}")
_SUBJECT = re.compile(
    r"[ \t>*]{0,8}(?:subject|betreff|objet|asunto|oggetto|assunto|тема|主题|件名) ?[:：]",
    re.IGNORECASE,
)
_MAIL_HEADS = 3  # lines `Name: value` in a row; fewer are also found in notes and settings
# `----- Original Message -----` above a line such as `From: …`.
_SEPARATOR = re.compile(
    r"^[-_=*]{3,20}[ \t]?[^\W\d_][^\n]{0,60}[-_=*]{3,20}[ \t]*\n(?=[^\W\d_][\w -]{0,30}:[ \t]\S)",
    re.MULTILINE,
)
_ANNOUNCED = re.compile(r"[:：][ \t]*\n(?:[ \t]*\n){1,3}(?=#{1,6}[ \t]+\S)")
_HEADING = re.compile(r"^#{1,6}[ \t]+\S", re.MULTILINE)
_QUOTED_LINE = re.compile(r"[ \t]{0,8}(?:>|\|[ \t])")
# Lines of a terminal, of a log and of a stack trace.
_PROMPT = re.compile(
    r"[ \t]{0,8}(?:[$%#]|>>>|\.\.\.|PS [A-Z]:[^>\n]{0,200}>"
    r"|[\w.-]{1,60}@[\w.-]{1,60}:[^$#\n]{0,200}[$#])[ \t]"
)
_STAMP = re.compile(r"[ \t\[]{0,4}(?:\d{4}-\d\d-\d\d|\d\d/\d\d/\d{4}|\d\d:\d\d:\d\d)[T \]\t,.]")
_TRACE = re.compile(
    r"[ \t]{1,16}(?:at [\w$.<>]{2,200}[(:]|File \"[^\"\n]{1,300}\", line \d)|Traceback \("
)
_SIGNS = frozenset('{}[]()<>=;|\\/_$&*+@#^~`"')
_DENSE = 0.12  # share of signs from which a line is code
_LINE_READ = 400  # characters of a line whose signs are counted: its beginning says enough
_ENDS = ("{", "}", ";", "(", "[", "),", "},", "],", "->", "=>", "&&", "||", "\\", "*/", ">")
_STATEMENT = ("{", "}", ";")  # end a line of many languages, and hardly one of prose
_RUN = 3  # lines that have the form of code; fewer are words with signs
_GAP = 3  # other lines between two of them, such as comments and blank lines


def blocks(text: str, *, by_user: bool) -> list[Block]:
    """The parts of a text, in order; joined by line breaks they are about the text again.

    `by_user`: people paste without saying so; an assistant's prose and tables are its own.
    """
    marked = list(_outermost(_marked(text, by_user=by_user)))
    documents = _documents(text, marked) if by_user else _Documents([])
    found: list[Block] = []
    position = 0
    for begin, end, sort in marked:
        found += _unmarked(text, position, begin, documents, by_user=by_user)
        found.append(Block(text[begin:end], sort))
        position = end
    found += _unmarked(text, position, len(text), documents, by_user=by_user)
    return [block for block in found if block.text.strip()]


_Span = tuple[int, int, Sort]
"""Where a part begins and ends, and what it is."""


def _marked(text: str, *, by_user: bool) -> list[_Span]:
    """The parts that have marks around them, by their beginning; some lie within others."""
    spans = list(_fenced(text))
    if by_user:
        spans += _foreign(text)
    return sorted(spans)


def _outermost(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Those that do not begin within the one before."""
    position = 0
    for begin, end, sort in spans:
        if begin >= position:
            yield begin, end, sort
            position = end


def _fenced(text: str) -> Iterator[_Span]:
    """What is between fences; behind one that is not closed, the rest of the text."""
    open_at, mark = -1, ""
    for fence in _FENCE.finditer(text):
        if open_at < 0:
            open_at, mark = fence.start(), fence[1]
        elif fence[1] == mark:
            yield open_at, _end_of("\n", text, fence.end()), Sort.CODE
            open_at = -1
    if open_at >= 0:
        yield open_at, len(text), Sort.CODE


def _end_of(mark: str, text: str, begin: int) -> int:
    """Where `mark` next stands; the end of the text for nowhere."""
    place = text.find(mark, begin)
    return place if place >= 0 else len(text)


def _foreign(text: str) -> Iterator[_Span]:
    """What a user did not write: markup, quotations and mails."""
    yield from _elements(text)
    quotes = list(_QUOTES.finditer(text))
    # The marks alternate: every second one closes. A last one without a partner says nothing.
    for begin, end in zip(quotes[::2], quotes[1::2], strict=False):
        yield begin.start(), end.end(), Sort.PASTED
    for opening, closing in _QUOTATION_MARKS:
        yield from _quotations(text, opening, closing)
    mail = _mail(text)
    if mail is not None:
        yield mail, pasted.signed(text, mail), Sort.PASTED


def _quotations(text: str, opening: str, closing: str) -> Iterator[_Span]:
    """What stands between a pair of quotation marks and is too long to be a name or a phrase."""
    begin = text.find(opening)
    while begin >= 0:
        end = text.find(closing, begin + 1)
        if end < 0:
            return
        if end - begin > _LONG_QUOTATION:
            yield begin, end + 1, Sort.PASTED
        begin = text.find(opening, end + 1)


class _Endings:
    """Where each tag and each comment of a text may end, found in one pass.

    To look for an end from each opening tag would be quadratic in tags that nothing closes.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._last_comment = text.rfind("-->")
        self._tags = defaultdict[str, list[int]](list)
        for closing in _CLOSING.finditer(text):
            self._tags[closing["tag"].lower()].append(closing.end())

    def of(self, opening: re.Match[str]) -> int | None:
        """The end of what this match of `_OPENING` begins; None when nothing closes it."""
        if opening["comment"]:
            return self._of_comment(opening.end())
        ends = self._tags.get(opening["tag"].lower(), [])
        nearest = bisect_left(ends, opening.end())
        return ends[nearest] if nearest < len(ends) else None

    def _of_comment(self, begin: int) -> int | None:
        if self._last_comment < begin:
            return None
        return self._text.index("-->", begin) + len("-->")


def _elements(text: str) -> Iterator[_Span]:
    """Elements of markup, each from its opening tag to the first closing tag of its name."""
    if "<" not in text:
        return
    endings = _Endings(text)
    position = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < position:  # inside the one before
            continue
        end = endings.of(opening)
        if end is None:
            continue
        yield opening.start(), end, Sort.PASTED
        position = end


def _mail(text: str) -> int | None:
    """Where a mail with its headers begins; None for no mail."""
    separator = _SEPARATOR.search(text)
    return separator.start() if separator else _mail_heads(_written_lines(text))


_Line = tuple[int, str]
"""A line and where it begins."""


def _mail_heads(lines: Sequence[_Line]) -> int | None:
    """Where the first run of lines that are mail headers begins."""
    for is_head, run in groupby(lines, key=_is_head_line):
        heads = list(run)
        if is_head and _of_a_mail([line for _, line in heads]):
            return heads[0][0]
    return None


def _is_head_line(line: _Line) -> bool:
    return bool(_HEAD_LINE.match(line[1]))


def _written_lines(text: str) -> list[_Line]:
    """The lines of a text that are not blank."""
    lines = text.splitlines(keepends=True)
    starts = accumulate(map(len, lines), initial=0)
    placed = zip(starts, lines, strict=False)  # `accumulate` gives one more, the end
    return [(start, line) for start, line in placed if line.strip()]


def _of_a_mail(heads: Sequence[str]) -> bool:
    """Whether lines `Name: value` are mail headers.

    One is the subject; or there is an address, and a time or a second address.
    """
    if len(heads) < _MAIL_HEADS:
        return False
    if any(map(_SUBJECT.match, heads)):
        return True
    telling = sum(bool(_IN_MAIL_HEADS.search(line)) for line in heads)
    return telling > 1 and any("@" in line for line in heads)


@dataclass(frozen=True, slots=True)
class _Documents:
    """Spans in order that do not overlap."""

    spans: Sequence[tuple[int, int]]

    def within(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """What lies between two places."""
        first = bisect_left(self.spans, begin, key=itemgetter(1))
        for start, stop in islice(self.spans, first, None):
            if start >= end:
                return
            yield max(start, begin), min(stop, end)


def _documents(text: str, marked: Sequence[_Span]) -> _Documents:
    """What was pasted without marks around it, and an announced text with several headings."""
    spans = pasted.spans(text, [(begin, end) for begin, end, _ in marked])
    announced = _ANNOUNCED.search(text)
    if announced and len(_HEADING.findall(text, announced.end())) > 1:
        spans.append((announced.end(), len(text)))
    apart: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if apart and begin <= apart[-1][1]:
            begin, end = apart[-1][0], max(end, apart.pop()[1])
        apart.append((begin, end))
    return _Documents(apart)


def _unmarked(
    text: str, begin: int, end: int, documents: _Documents, *, by_user: bool
) -> Iterator[Block]:
    """What has no marks around it, in documents and between them."""
    for start, stop in documents.within(begin, end):
        yield from _by_lines(text[begin:start], by_user=by_user)
        for block in _by_lines(text[start:stop], by_user=by_user):
            yield Block(block.text, Sort.DOCUMENT) if block.sort is Sort.OWN else block
        begin = stop
    yield from _by_lines(text[begin:end], by_user=by_user)


def _by_lines(text: str, *, by_user: bool) -> list[Block]:
    """Takes quoted lines and runs of code out of what has no marks around it."""
    lines = text.splitlines()
    sorts = _smoothed([_sort(line, by_user=by_user) for line in lines])
    runs = groupby(zip(sorts, lines, strict=True), key=itemgetter(0))
    return [Block("\n".join(line for _, line in run), sort) for sort, run in runs]


def _sort(line: str, *, by_user: bool) -> Sort:
    if not by_user:
        # An assistant fences its code; what it ran has a bar before each line. A bar at the end
        # as well is a table.
        ran = line.startswith("| ") and not line.rstrip().endswith("|")
        return Sort.CODE if ran else Sort.OWN
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
    read = words[:_LINE_READ]
    signs = sum(character in _SIGNS for character in read)
    if signs / len(read) >= _DENSE or words.endswith(_STATEMENT):
        return True
    if words.endswith(_ENDS) and signs > 1:
        return True
    return " " not in words and words.endswith((",", ")")) and words.count(".") > 1  # `a.b.c(),`


def _smoothed(sorts: Sequence[Sort]) -> list[Sort]:
    """The sorts of the lines, with runs of code closed over their gaps and short runs as words."""
    smooth: list[Sort] = [Sort.OWN if sort is Sort.CODE else sort for sort in sorts]
    code_lines = [place for place, sort in enumerate(sorts) if sort is Sort.CODE]
    for run in _runs(code_lines):
        if len(run) >= _RUN:
            begin, end = run[0], run[-1] + 1
            smooth[begin:end] = [Sort.CODE] * (end - begin)
    return smooth


def _runs(places: Sequence[int]) -> Iterator[list[int]]:
    """The places in runs, within which no gap is larger than `_GAP`."""
    run: list[int] = []
    for place in places:
        if run and place - run[-1] > _GAP + 1:
            yield run
            run = []
        run.append(place)
    if run:
        yield run
