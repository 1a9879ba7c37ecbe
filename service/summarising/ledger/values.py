"""Parsed values of tools on a line, as they stand in their source. Pure.

No number is rounded or written anew, nothing is cut inside a word, and what a tool says or names in
words stands in quotation marks, so that nothing of it looks like our own words and signs.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from service.text import characters
from service.text.plain import plain

VALUE = 80  # characters that a cell, a name or a nested value may take
ITEMS = 12  # of an object or an array
_DEPTH = 4

# Blanks of any kind, the signs of a line, and arrows of any shape.
_AMBIGUOUS = re.compile(
    r'[\s,;="|(){}\[\]×\u2190-\u21ff\u2794-\u27be\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff]'
)
_BLANKS = re.compile("[ \t\n\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]+")
_UNSPACED = re.compile(f"[{characters.UNSPACED}\u3000-\u303f\uff00-\uffef]")


class Number(str):
    """A JSON number as it stands in the source: `12847.50`, not 12847.5."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=Number, strict=False
)


def parsed(text: str) -> Any:  # noqa: ANN401 - a tool's JSON
    """The value of a JSON text, its numbers as `Number`.

    None when it is no JSON, nested too deeply, or `null`.
    """
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters."""
    return shorten(_BLANKS.sub(" ", plain(text[: limit * 4])).strip(" "), limit)


def shorten(text: str, limit: int) -> str:
    """A line of at most `limit` characters, cut between words."""
    if len(text) <= limit:
        return text
    for place in range(limit - 1, 0, -1):
        if text[place] == " " or (
            _UNSPACED.match(text[place - 1]) and _UNSPACED.match(text[place])
        ):
            return text[:place].rstrip(" ,;") + "…"
    # One long word, such as an address: a part of it would be another one.
    return "…"


def listed(parts: Iterable[str], room: int, most: int = ITEMS) -> str:
    """As many of `parts` as fit, and an ellipsis for the rest."""
    shown: list[str] = []
    for count, part in enumerate(parts):
        if count == most or (shown and len(part) + 2 > room):
            return ", ".join([*shown, "…"])
        shown.append(part)
        room -= len(part) + 2
    return ", ".join(shown)


def quoted(text: str, room: int) -> str:
    """`text` on one line, in quotation marks."""
    return '"' + line(text, room).replace('"', "'") + '"'


def value(one: Any, room: int = VALUE, depth: int = 0) -> str:  # noqa: ANN401 - a tool's JSON
    """A parsed JSON value; of an array or object as much as fits."""
    if isinstance(one, dict):
        return row(one, room, depth)
    if isinstance(one, list):
        return _array(one, room, depth)
    if isinstance(one, Number):
        return str(one) if len(one) <= VALUE else f"[number of {len(one)} characters]"
    if isinstance(one, str):
        return word(one, room)
    if isinstance(one, bool):
        return str(one).lower()
    return "null"


def row(cells: Mapping[str, Any], room: int, depth: int = 0) -> str:
    """An object with as many of its values as fit; nested too deeply, by its size."""
    if depth >= _DEPTH:
        return f"{{{len(cells)} fields}}"
    shown = (f"{word(key)}: {value(one, VALUE, depth + 1)}" for key, one in cells.items())
    return "{" + listed(shown, room) + "}"


def _array(items: Sequence[Any], room: int, depth: int) -> str:
    if depth >= _DEPTH:
        return f"[{len(items)} items]"
    return "[" + listed((value(one, VALUE, depth + 1) for one in items), room) + "]"


def word(text: str, room: int = VALUE) -> str:
    """A name or a value: bare as long as it is one word that nothing around it makes ambiguous."""
    shown = line(text, room)
    if not shown or _AMBIGUOUS.search(characters.narrowed(shown)):
        return quoted(text, room)
    return shown
