"""The sentences of a text, in any script. Pure.

sentencex ends sentences (some 240 languages, no model, one pass); what it is given and what becomes
of its sentences is decided here: lines stay apart, and none is longer than a bound.
"""

import re
from collections.abc import Iterable, Iterator

from sentencex import segment  # type: ignore[import-untyped]

LONGEST = 320
"""Characters of a sentence; a longer one is split between words, so that its end is not lost."""

_BULLET = re.compile(r"\s{0,40}(?:(?:[*•+\-–—]|\d{1,3}[.)]|#{1,6}|\[[ xX]\])\s{1,20}){1,3}")
_IN_NAMES = "_$"
_SOLID_ENDS = "。！？…」』"  # no blank follows
_PIECE = 2000  # characters that are split at once: sentencex is quadratic in open brackets
# Not `2 ** 10` or `**kwargs`.
_EMPHASIS = re.compile(r"(?<![\w*])\*\*(?=\S)([^*\n]{1,400})(?<=\S)\*\*(?![\w*])")


def lines(text: str) -> Iterator[str]:
    """The lines of a text that have words."""
    return (line.rstrip() for line in text.splitlines() if line.strip())


def of_line(line: str, language: str = "en") -> Iterator[str]:
    """The sentences of one line."""
    for sentence in _whole(_segments(line, language)):
        for part in _by_size(" ".join(sentence.split()), LONGEST):
            if part.strip():
                yield part.strip()


def _segments(line: str, language: str) -> Iterator[str]:
    """What ends as a sentence does; the last one of a piece goes on in the next."""
    rest = ""
    for piece in _by_size(line, _PIECE):
        *ended, rest = segment(language, rest + piece)
        yield from ended
        if len(rest) > _PIECE:
            yield rest
            rest = ""
    if rest:
        yield rest


def _whole(segments: Iterable[str]) -> Iterator[str]:
    """Segments, joined where no blank stands behind a point: `Physics.Overlap` is one name."""
    joined = ""
    for following in segments:
        if joined and not _one_name(joined[-1], following[0]):
            yield joined
            joined = ""
        joined += following
    if joined:
        yield joined


def _one_name(before: str, after: str) -> bool:
    """Whether the characters on both sides of a cut may belong to one name."""
    if before.isspace() or before in _SOLID_ENDS:
        return False
    return after.isalnum() or after in _IN_NAMES


def unmarked(line: str) -> str:
    """A line without list marks and emphasis."""
    marked = _BULLET.match(line)
    bare = line[marked.end() :] if marked else line
    return " ".join(_EMPHASIS.sub(r"\1", bare).split())


def is_item(line: str) -> bool:
    """Whether a line has the mark of a list, or of a heading."""
    return bool(_BULLET.match(line))


def _by_size(text: str, most: int) -> Iterator[str]:
    """A text in parts of so many characters, cut between words where there are blanks."""
    begin = 0
    while len(text) - begin > most:
        cut = text.rfind(" ", begin + 1, begin + most)
        end = cut if cut > begin else begin + most
        yield text[begin:end]
        begin = end
    yield text[begin:]


def asks(sentence: str) -> bool:
    """Whether a sentence is a question, by its mark."""
    return sentence.rstrip("\"')]”’»」").endswith(("?", "？", "؟"))


def shortened(sentence: str, most: int) -> str:
    """`sentence` in at most about so many characters, cut between words where there are blanks."""
    if len(sentence) <= most:
        return sentence
    begin, blank, _ = sentence[:most].rpartition(" ")
    return f"{begin} …" if blank else sentence[:most] + "…"
