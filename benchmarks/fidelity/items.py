"""What is planted in a chat, and how it is recognised."""

import re
from collections.abc import Collection
from dataclasses import dataclass

_VALUE = re.compile(r"\d|://|@|/")
_SPACE = re.compile(r"\s+")
_EMPHASIS = re.compile(r"\*\*|`|(?<!\w)_|_(?!\w)")
_GROUPED = re.compile(r"(?<=\d)[.,](?=\d{3}(?:\D|$))")
_DECIMAL = re.compile(r"(?<=\d),(?=\d)")


@dataclass(frozen=True, slots=True)
class Item:
    """One planted item.

    Attributes:
        id: unlike that of any other item of the chat.
        type: one of `phrasebook.TYPES`.
        text: the user's own words; of a tool's value, what is to be shown.
        gist: how a good summary would put it.
        keys: what has to stand on one line; `a|b` is either.
        values: those of the keys that are numbers, dates, ids, addresses, names.
        message: id of the message that has it.
        exact: its keys count only character by character.
        until: id of the message that supersedes it.
        replaces: id of the item that it supersedes.
    """

    id: str
    type: str
    text: str
    gist: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    message: str
    exact: bool = False
    until: str | None = None
    replaces: str | None = None

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about: the keys without the values."""
        return tuple(key for key in self.keys if key not in self.values)

    def current(self, covered: Collection[str]) -> bool:
        """Whether it has been said, and not superseded, when these messages are covered."""
        return self.message in covered and (self.until is None or self.until not in covered)

    def stands_in(self, line: str) -> bool:
        """Whether a line, normalised unless the item is exact, has all keys."""
        return all(has(line, key, exact=self.exact) for key in self.keys)


def is_value(text: str) -> bool:
    """Whether a key is more than words."""
    return bool(_VALUE.search(text))


def normal(text: str) -> str:
    """Lower case, single blanks, no emphasis; numbers without separators of thousands, with a decimal point."""
    flat = _SPACE.sub(" ", _EMPHASIS.sub("", text)).casefold().strip()
    return _DECIMAL.sub(".", _GROUPED.sub("", flat))


def has(line: str, key: str, *, exact: bool = False) -> bool:
    """Whether `line` has `key`, and not as a part of a longer number or word."""
    return any(_find(line, one if exact else normal(one)) for one in key.split("|"))


def _find(line: str, key: str) -> bool:
    before = r"(?<!\d)(?<!\d[.,])" if key[:1].isdigit() else ""
    after = r"(?!\d)(?![.,]\d)" if key[-1:].isdigit() else ""
    return re.search(before + re.escape(key) + after, line) is not None
