"""Splits a text into sentences, in any script. Pure.

sentencex ends sentences (some 240 languages, no model, one pass). This module decides what it is
given: lines stay apart, and no sentence is longer than a bound.
"""

import re
from collections.abc import Iterable, Iterator

from sentencex import segment  # type: ignore[import-untyped]

LONGEST = 320
"""Characters of a sentence; a longer one is split between words, so that its end is not lost."""

# The number of an item stays, because a later message may name it.
_BULLET = re.compile(r"\s{0,40}(?:(?:[*•+\-–—]|#{1,6}|\[[ xX]\])\s{1,20}){1,3}")
_ITEM = re.compile(r"\s{0,40}(?:[*•+\-–—]|\d{1,3}[.)]|[a-zA-Z]\)|#{1,6}|\[[ xX]\])\s")
_NUMBERED = re.compile(r"\s{0,40}(\d{1,3}|[a-zA-Z])[.)]\s")
_ORDINAL = re.compile(r"(?<!\d)\d{1,3}\.\s*\Z")
_NOUNS_HAVE_CAPITALS = ("de", "lb")
_IN_NAMES = "_$"
_SOLID_ENDS = "。！？…」』"  # no blank follows
_FAILURE = re.compile(
    r"(?i:\b(?:error|exception|traceback|failed|failure|fatal|panic|denied|timed out|"
    r"timeout (?:after|exceeded|expired))\b)|[a-z](?:Error|Exception)\b"
    r"|\b(?:success|ok)\"?: false|\b(?:exit_?code|returncode)\"?[:=] ?[1-9]"
)
_NO_FAILURE = re.compile(
    r"\b(?:no|0|without) (?:error|failure)"
    r"|\berrors?\W{0,2}[=:]\s*\"?(?:0|none|null|false|\[\]|\")(?!\w)",
    re.IGNORECASE,
)
_PIECE = 2000  # characters that are split at once: sentencex is quadratic in open brackets
# Not `2 ** 10` or `**kwargs`.
_EMPHASIS = re.compile(r"(?<![\w*])\*\*(?=\S)([^*\n]{1,400})(?<=\S)\*\*(?![\w*])")


def split_lines(text: str) -> Iterator[str]:
    """Yields the lines of a text that have words."""
    return (line.rstrip() for line in text.splitlines() if line.strip())


def split_sentences(line: str, language: str = "en") -> Iterator[str]:
    """Yields the sentences of one line."""
    for sentence in _join_segments(_segment_line(line, language), language):
        for part in _split_by_size(" ".join(sentence.split()), LONGEST):
            if part.strip():
                yield part.strip()


def _segment_line(line: str, language: str) -> Iterator[str]:
    """Yields the segments of a line; the last one of a piece goes on in the next piece."""
    rest = ""
    for piece in _split_by_size(line, _PIECE):
        *ended, rest = segment(language, rest + piece)
        yield from ended
        if len(rest) > _PIECE:
            yield rest
            rest = ""
    if rest:
        yield rest


def _join_segments(segments: Iterable[str], language: str) -> Iterator[str]:
    """Joins segments where no sentence ends between two."""
    joined = ""
    for following in segments:
        if joined and not _goes_on(joined, following, language):
            yield joined
            joined = ""
        joined += following
    if joined:
        yield joined


def _goes_on(before: str, after: str, language: str) -> bool:
    """Whether a sentence goes on behind a cut.

    It does behind the number of an item, behind `2.` before a small letter or where nouns have
    capitals, and without a blank: `Physics.Overlap` is one name.
    """
    last, first = before[-1], after[0]
    if _ORDINAL.search(before):
        is_item = before.strip()[:-1].isdigit()
        return is_item or first.islower() or language in _NOUNS_HAVE_CAPITALS
    if last.isspace() or last in _SOLID_ENDS:
        return False
    return first.isalnum() or first in _IN_NAMES


def strip_marks(line: str) -> str:
    """Removes list marks and emphasis from a line."""
    marked = _BULLET.match(line)
    bare = line[marked.end() :] if marked else line
    return " ".join(_EMPHASIS.sub(r"\1", bare).split())


def is_item(line: str) -> bool:
    """Whether a line has the mark of a list, or of a heading."""
    return bool(_ITEM.match(line))


def is_row(line: str) -> bool:
    """Whether a line is a row of a table."""
    bare = line.strip()
    return len(bare) > 1 and bare.startswith("|") and bare.endswith("|")


def find_mark(line: str) -> str:
    """Finds the mark of an item, `2` of `2. Blue` or `b` of `b) Blue`; "" without one."""
    marked = _NUMBERED.match(line)
    return marked[1].casefold() if marked else ""


def _split_by_size(text: str, most: int) -> Iterator[str]:
    """Splits a text into parts of at most about `most` characters, cut between words.

    A part of an address would be another address, so a word stays whole, up to `_PIECE`; scripts
    without blanks are cut where a part is full.
    """
    begin = 0
    while len(text) - begin > most:
        end = text.rfind(" ", begin + 1, begin + most)
        if end <= begin:
            end = _find_word_end(text, begin, most)
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _find_word_end(text: str, begin: int, most: int) -> int:
    if not text[begin : begin + most].isascii():
        return begin + most
    blank = text.find(" ", begin + most, begin + _PIECE)
    return blank if blank >= 0 else min(begin + _PIECE, len(text))


def asks(sentence: str) -> bool:
    """Whether a sentence is a question, by its mark."""
    return sentence.rstrip("\"')]”’»」").endswith(("?", "？", "؟"))


def reports_failure(line: str) -> bool:
    """Whether a line of a log or a tool says that something failed."""
    return bool(_FAILURE.search(line)) and not _NO_FAILURE.search(line)


def shorten(sentence: str, most: int) -> str:
    """Shortens a sentence to about `most` characters, cut between words if it has blanks."""
    if len(sentence) <= most:
        return sentence
    begin, blank, _ = sentence[:most].rpartition(" ")
    return f"{begin} …" if blank else sentence[:most] + "…"
