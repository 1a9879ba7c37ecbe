"""What others wrote, in a few words: form tells a sentence from a value, and a sentence is told by its size. Pure.

What a tool, a page or the name of a file says may stand in a message that a model obeys. A value
cannot order anything; a sentence can, in any language and in words that no list has. So a text with
a clause, longer than a short field, is told by how it begins, by its values and its size; how much
it says is counted in bytes, because scripts of few characters take more of them. Linear.
"""

import re
from collections.abc import Iterator

from service.text import characters, values

SHORT = 44
"""Bytes of a field that stands as it is, whatever it says."""

_CLAUSE = 6  # words in a row, without a figure or a sign between them
_HEAD = 24  # bytes of how a text begins, and its words
_HEAD_WORDS = 4
_VALUES = 6
_VALUE = 40  # characters
_READ = 2000  # characters in which values are looked for
NAME_WORDS = 3
"""Of how a name begins that has more than names have."""
_BORDER = re.compile(r"[\n\r\t,;:|=(){}\[\]<>、，；：]+")
_UNSPACED = re.compile(f"[{characters.UNSPACED}]")
_ABBREVIATION = re.compile(r"(?<![A-Z] )\b[A-Z]{2,8}\b(?! [A-Z]{2})")
_SIGNS = re.compile(r"[,;|=(){}\[\]<>@]|://|\Awww\.")  # of an address, or of several values
_ENDING = re.compile(r"\.\w{1,8}\Z", re.ASCII)


def is_prose(text: str, short: int = SHORT) -> bool:
    """Whether a text is longer than a short field and has a clause."""
    return _size(text[: short + 1]) > short and any(map(_is_clause, _BORDER.split(text)))


def told(text: str, words: int = _HEAD_WORDS) -> str:
    """How prose begins, in at most so many words, which values it has, and its size."""
    parts = [f'"{begin}"'] if (begin := head(text, words).replace('"', "'")) else []
    parts += (value for value in _values(text[:_READ]) if value not in begin)
    beside = f": {', '.join(parts)}" if parts else ""
    return f"[text of {len(text)} characters{beside}]"


def head(text: str, words: int = _HEAD_WORDS) -> str:
    """The first words of a text, and an ellipsis; a text of no more than that as it is."""
    kept = ""
    for place, word in enumerate(text.split()):
        longer = f"{kept} {word}".lstrip()
        if place == words or _size(longer) > _HEAD:
            return f"{kept or _first(word)}…"
        kept = longer
    return kept


def name(text: str) -> str:
    """A file's name as it is, unless it has more words than names have: then how it begins, and its ending."""
    if len(text.split()) <= NAME_WORDS + 1:
        return text
    ending = _ENDING.search(text)
    begin = head(text, NAME_WORDS)
    return begin + (ending[0] if ending and begin.endswith("…") else "")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _first(word: str) -> str:
    """As much of a word of a script without blanks as a head has."""
    return word.encode()[:_HEAD].decode("utf-8", "ignore") if _UNSPACED.match(word) else ""


def _is_clause(part: str) -> bool:
    """Whether enough words follow each other; a sign of a script without blanks is one."""
    run = 0
    for word in part.split():
        run = run + max(len(_UNSPACED.findall(word)), 1) if any(map(str.isalpha, word)) else 0
        if run >= _CLAUSE:
            return True
    return False


def _values(text: str) -> Iterator[str]:
    """Figures, dates, ids and abbreviations, but no address; a text that seems to be of nothing else has none."""
    exact = (
        one for one in values.found(text) if one.readings or one.date or not _SIGNS.search(one.text)
    )
    found = [one.text for one in exact if len(one.text) <= _VALUE]
    if 2 * len(found) > len(text.split()):
        found = []
    found += _ABBREVIATION.findall(text)
    yield from list(dict.fromkeys(found))[:_VALUES]
