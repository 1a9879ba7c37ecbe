"""Parsed values of tools on a line, as they stand in their source. Pure.

No number is rounded or written anew, nothing is cut inside a word, and what a tool says or names in
words stands in quotation marks, so that nothing of it looks like our own words and signs.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from service.text import characters
from service.text.plain import plain

_VALUE = 80  # characters that a name or a nested value may take
_ITEMS = 12  # of an object or an array
_DEPTH = 4

# Blanks of any kind, the signs of a line, and arrows of any shape.
_AMBIGUOUS = re.compile(
    r'[\s,;="|(){}\[\]×\u2190-\u21ff\u2794-\u27be\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff]'
)
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


def quoted(text: str, room: int) -> str:
    """`text` on one line, in quotation marks."""
    words = " ".join(plain(text[: room * 4]).split())
    return '"' + shorten(words, room).replace('"', "'") + '"'


def word(text: str) -> str:
    """A name or a value: bare as long as nothing around it makes it ambiguous."""
    shown = quoted(text, _VALUE)
    bare = shown.strip('"')
    return bare if bare and not _AMBIGUOUS.search(characters.narrowed(bare)) else shown


def value(one: Any, room: int = _VALUE, depth: int = 0) -> str:  # noqa: ANN401 - a tool's JSON
    """A parsed JSON value; of an array or object as much as fits."""
    if isinstance(one, dict | list) and depth >= _DEPTH:
        return f"[{len(one)} values]"
    if isinstance(one, dict):
        return "{" + fields(one, room, depth) + "}"
    if isinstance(one, list):
        return "[" + _listed((value(item, _VALUE, depth + 1) for item in one), room) + "]"
    if isinstance(one, Number):
        return str(one) if len(one) <= _VALUE else f"[number of {len(one)} characters]"
    return word(one) if isinstance(one, str) else json.dumps(one)


def fields(cells: Mapping[str, Any], room: int, depth: int = 0) -> str:
    """The fields of an object, as many as fit: plain values first, then what is nested."""
    ordered = sorted(cells.items(), key=lambda field: isinstance(field[1], list | dict))
    return _listed((f"{word(key)}: {value(one, _VALUE, depth + 1)}" for key, one in ordered), room)


def _listed(parts: Iterable[str], room: int) -> str:
    """As many of `parts` as fit, and an ellipsis for the rest."""
    shown: list[str] = []
    for part in parts:
        if len(shown) == _ITEMS or (shown and len(part) + 2 > room):
            return ", ".join([*shown, "…"])
        shown.append(part)
        room -= len(part) + 2
    return ", ".join(shown)
