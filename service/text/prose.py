"""Other people's texts in a few words: values stand, sentences are described. Pure, linear.

What a tool, a page or the name of a file says may stand in a message that a model obeys. A value
cannot order anything; a sentence can, in any language and in words that no list has. So a text with
a clause, longer than a short field, is described by how it begins, by its values and its size. How
much it says is counted in bytes, because scripts with few characters a word need more of them.
"""

import re

from service.text import characters, values

SHORT = 44
"""Bytes of a field that stands as it is, whatever it says."""

_CLAUSE = 6  # words in a row, without a figure or a sign between them
_HEAD = 24  # bytes, and words, of how a text begins: too few for an order
_HEAD_WORDS = 4
_VALUES = 6
_VALUE = 40  # characters
_READ = 2000  # characters in which values are looked for
NAME_WORDS = 3
"""Words that are kept of a file's name with more words than names have."""
_BORDER = re.compile(r"[\n\r\t,;:|=(){}\[\]<>、，；：]+")
_UNSPACED = re.compile(f"[{characters.UNSPACED}]")
_ABBREVIATION = re.compile(r"(?<![A-Z] )\b[A-Z]{2,8}\b(?! [A-Z]{2})")
_SIGNS = re.compile(r"[,;|=(){}\[\]<>@]|://|\Awww\.")  # of an address, or of several values
_ENDING = re.compile(r"\.\w{1,8}\Z", re.ASCII)


def is_prose(text: str, short: int = SHORT) -> bool:
    """Whether a text is longer than a short field and has a clause."""
    # A character has at least one byte, so one more than `short` of them are enough to look at.
    if _size(text[: short + 1]) <= short:
        return False
    return any(map(_is_clause, _BORDER.split(text)))


def told(text: str, words: int = _HEAD_WORDS) -> str:
    """How prose begins, in at most so many words, which values it has, and its size."""
    begin = head(text, words).replace('"', "'")
    parts = [f'"{begin}"'] if begin else []
    parts += [value for value in _values(text[:_READ]) if value not in begin]
    if not parts:
        return f"[text of {len(text)} characters]"
    return f"[text of {len(text)} characters: {', '.join(parts)}]"


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
    """A file's name; of one with more words than names have, its beginning and its ending."""
    if len(text.split()) <= NAME_WORDS + 1:
        return text
    begin = head(text, NAME_WORDS)
    ending = _ENDING.search(text)
    was_cut = begin.endswith("…")
    return begin + ending[0] if ending and was_cut else begin


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _first(word: str) -> str:
    """As much of a word of a script without blanks as a head has."""
    return word.encode()[:_HEAD].decode("utf-8", "ignore") if _UNSPACED.match(word) else ""


def _is_clause(part: str) -> bool:
    """Whether enough words follow each other; a sign of a script without blanks is one."""
    run = 0
    for word in part.split():
        has_letter = any(map(str.isalpha, word))
        run = run + max(len(_UNSPACED.findall(word)), 1) if has_letter else 0
        if run >= _CLAUSE:
            return True
    return False


def _values(text: str) -> list[str]:
    """The first figures, dates, ids and abbreviations of a text, but no address."""
    found = [value.text for value in values.found(text) if _is_short_value(value)]
    # Where half of the words seem to be values, they are words after all, joined by signs.
    if 2 * len(found) > len(text.split()):
        found = []
    found += _ABBREVIATION.findall(text)
    return list(dict.fromkeys(found))[:_VALUES]


def _is_short_value(value: values.Value) -> bool:
    if len(value.text) > _VALUE:
        return False
    return bool(value.readings) or bool(value.date) or not _SIGNS.search(value.text)
