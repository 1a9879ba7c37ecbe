"""The sentences of a text, in any script. Pure.

sentencex ends sentences (some 240 languages, no model, one pass); what it is given and what becomes
of its sentences is decided here: lines of lists stay apart, lines that were wrapped by hand are
joined, and none is longer than a bound.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from sentencex import segment  # type: ignore[import-untyped]

LONGEST = 320
"""Characters of a sentence; a longer one is taken apart at clauses, so that no end of it is lost."""

_BULLET = re.compile(r"\s{0,40}(?:(?:[*•+\-–—]|\d{1,3}[.)]|#{1,6}|\[[ xX]\])\s{1,20}){1,3}")
_WRAPPED = 50  # characters of a line that may have been wrapped by hand
_ENDS = tuple(".!?…:;。！？：；,、，")
_IN_NAMES = "_$"
_SOLID_ENDS = "。！？…」』"  # no blank follows
_PIECE = 2000  # characters that are taken apart at once: sentencex is quadratic in open brackets
_CLAUSE = re.compile(r"(?<=[;:；：])\s{0,4}|(?<=,)\s{1,4}|(?<=[，、])|\s{1,4}[-–—]\s{1,4}")
_EMPHASIS = re.compile(
    r"(?<![\w*])\*\*(?=\S)([^*\n]{1,400})(?<=\S)\*\*(?![\w*])"
)  # not `2 ** 10`, `**kwargs`


def split(text: str, language: str = "en") -> Iterator[str]:
    """The sentences of `text`, each on one line, without list marks and emphasis.

    Args:
        text: own words of a speaker.
        language: ISO 639-1 code; decides about abbreviations.
    """
    for line in lines(text):
        yield from of_line(unmarked(line), language)


def lines(text: str) -> Iterator[str]:
    """The lines of a text; those that were wrapped by hand are one."""
    joined: list[str] = []
    for line in text.splitlines():
        if joined and not _goes_on(joined[-1], line):
            yield " ".join(joined)
            joined = []
        if joined:
            joined.append(line.strip())
        elif line.strip():
            joined = [line.rstrip()]
    if joined:
        yield " ".join(joined)


def of_line(line: str, language: str = "en") -> Iterator[str]:
    """The sentences of one line."""
    for piece in _pieces(line):
        for sentence in _whole(segment(language, piece)):
            flat = " ".join(sentence.split())
            if flat:
                yield from _bounded(flat)


def _whole(segments: Iterable[str]) -> Iterator[str]:
    """Segments, joined where no blank stands behind a point: `Physics.Overlap` is one name."""
    joined = ""
    for one in segments:
        if joined and (
            joined[-1].isspace()
            or joined[-1] in _SOLID_ENDS
            or not (one[0].isalnum() or one[0] in _IN_NAMES)
        ):
            yield joined
            joined = ""
        joined += one
    if joined:
        yield joined


def unmarked(line: str) -> str:
    """A line without list marks and emphasis."""
    marked = _BULLET.match(line)
    bare = line[marked.end() :] if marked else line
    return " ".join(_EMPHASIS.sub(r"\1", bare).split())


def is_item(line: str) -> bool:
    """Whether a line has the mark of a list, or of a heading."""
    return bool(_BULLET.match(line))


def _goes_on(before: str, line: str) -> bool:
    begins = line.lstrip()[:1]
    wrapped = len(before) >= _WRAPPED and not before.endswith(_ENDS)
    return wrapped and begins.islower() and not is_item(line)


def _pieces(line: str) -> Iterator[str]:
    """A line in pieces that are not too long, cut between words where there are blanks."""
    begin = 0
    while len(line) - begin > _PIECE:
        cut = line.rfind(" ", begin + _PIECE // 2, begin + _PIECE)
        end = cut if cut > begin else begin + _PIECE
        yield line[begin:end]
        begin = end
    yield line[begin:]


def _bounded(sentence: str) -> Iterator[str]:
    """Takes a long sentence apart at its clauses, and a long clause between words."""
    if len(sentence) <= LONGEST:
        yield sentence
        return
    begin, last = 0, 0
    for clause in _CLAUSE.finditer(sentence):
        if clause.end() - begin > LONGEST and last > begin:
            yield from _words(sentence[begin:last].strip())
            begin = last
        last = clause.end()
    if last > begin and len(sentence) - begin > LONGEST:
        yield from _words(sentence[begin:last].strip())
        begin = last
    yield from _words(sentence[begin:].strip())


def _words(text: str) -> Iterator[str]:
    begin = 0
    while len(text) - begin > LONGEST:
        cut = text.rfind(" ", begin + 1, begin + LONGEST)
        end = cut if cut > begin else begin + LONGEST
        yield text[begin:end].strip()
        begin = end
    if text[begin:].strip():
        yield text[begin:].strip()


def asks(sentence: str) -> bool:
    """Whether a sentence is a question, by its mark."""
    return sentence.rstrip("\"')]”’»」").endswith(("?", "？", "؟"))


def shortened(sentence: str, most: int) -> str:
    """`sentence` in at most about so many characters, cut between words where there are blanks."""
    if len(sentence) <= most:
        return sentence
    begin, blank, _ = sentence[:most].rpartition(" ")
    return f"{begin} …" if blank else sentence[:most] + "…"


def around(sentence: str, part: str, most: int) -> str:
    """`part` and the words around it, in about so many characters, cut between words where there are blanks."""
    if len(sentence) <= most:
        return sentence
    place = max(sentence.find(part), 0)
    begin = max(min(place - (most - len(part)) // 2, len(sentence) - most), 0)
    cut = sentence[begin : begin + most]
    if begin:
        _, blank, rest = cut.partition(" ")
        cut = f"… {rest}" if blank and part in rest else f"…{cut}"
    return cut if begin + most >= len(sentence) else shortened(f"{cut} ", len(cut))


def last_question(sentences: Sequence[str]) -> str:
    """The last of them that asks; "" for none."""
    return next((one for one in reversed(sentences) if asks(one)), "")
