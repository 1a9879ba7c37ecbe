"""How text of unknown origin is shown on one line of the ledger: bounded, exact, and quoted.

In: texts and parsed JSON of tool calls. Out: parts of a line. What is shown stands in the source
character for character, but for line breaks, runs of blanks and invisible characters. A text is cut
between words or cells, never inside a number, an id or a URL, and an ellipsis says so. Nothing is
withheld for its words: what a tool says stands in quotation marks, and prose is told by its size.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from service.text import characters, prose
from service.text.plain import plain

VALUE = 60  # characters that a cell, a name or a nested value may take
_ITEMS = 12  # of an object or an array
_DEPTH = 3
_LONGEST_NUMBER = 80
FAILURE = 80  # bytes of the words of a failure that stand as they are; a chat goes on from them

_AMBIGUOUS = re.compile('[,;="|]')
_FIGURE = re.compile(r"[+-]?[0-9][0-9.,:/TZ+-]*")
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


def parsed_from(text: str, place: int) -> tuple[Any, int]:
    """The JSON value that begins at `place`, and where it ends; None when it is not complete."""
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, place


def line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters."""
    flat = _BLANKS.sub(" ", plain(text[: limit * 4])).strip(" ")
    if len(text) <= limit * 4:
        return shorten(flat, limit)
    return _cut(flat, min(limit, len(flat)), len(text))


def shorten(text: str, limit: int) -> str:
    """A line of at most `limit` characters, cut between words."""
    return text if len(text) <= limit else _cut(text, limit, len(text))


def listed(parts: Iterable[str], room: int, most: int = _ITEMS) -> str:
    """As many of `parts` as fit, and an ellipsis for the rest."""
    said: list[str] = []
    for count, part in enumerate(parts):
        if count == most or (said and len(part) + 2 > room):
            return ", ".join([*said, "…"])
        said.append(part)
        room -= len(part) + 2
    return ", ".join(said)


def names(keys: Iterable[str], room: int) -> str:
    """Names of columns or keys."""
    return listed(map(name, keys), room)


def name(key: str, room: int = VALUE) -> str:
    """A name of a column or a key, which may be a sentence."""
    return prose.told(key, prose.NAME_WORDS) if prose.is_prose(key) else line(key, room)


def value(one: Any, room: int = VALUE) -> str:  # noqa: ANN401 - a tool's JSON
    """A parsed JSON value; an array or object that does not fit is named by its size."""
    return _shown(one, room, 1)


def whole(cells: Mapping[str, Any], room: int, depth: int = 1) -> str:
    """An object with its values; "" when they do not fit. `depth`: how deep it is nested."""
    return _enclosed("{", _pairs(cells, room, depth + 1), "}", room)


def brief(one: Any, room: int) -> str:  # noqa: ANN401 - a tool's JSON
    """A value of a call's arguments; of rows only the cells.

    The assistant wrote them, so prose is shown as it is.
    """
    if isinstance(one, str) and not isinstance(one, Number):
        return _quotation(one, room)
    if isinstance(one, list) and one and all(isinstance(row, dict) for row in one):
        return "[" + listed(map(_brief_row, one), room) + "]"
    return value(one, room)


def _brief_row(cells: Mapping[str, Any]) -> str:
    return " ".join(brief(one, VALUE) for one in cells.values())


def row(cells: Mapping[str, Any], room: int, cell: int = VALUE) -> str:
    """An object with as many of its values as fit, each of at most `cell` characters."""
    return "{" + listed(_pairs(cells, cell, 1), room) + "}"


def array(items: Sequence[Any], room: int) -> str:
    """An array with as many of its values as fit."""
    return "[" + listed((_shown(one, VALUE, 1) for one in items[: _ITEMS + 1]), room) + "]"


def cell(text: str, room: int = VALUE) -> str:
    """A value as a reader sees it best: bare as long as it is one figure or one name."""
    if prose.is_prose(text):
        return prose.told(text)
    said = line(text, room)
    return quoted(said, room) if " " in said or _AMBIGUOUS.search(said) or not said else said


def told(text: str, room: int, short: int = prose.SHORT) -> str:
    """What a tool says: quoted, or by its size when it is prose and not `short`."""
    return prose.told(text) if prose.is_prose(text, short) else quoted(text, room)


def quoted(text: str, room: int) -> str:
    """`text` on one line, in quotation marks; a figure stands bare."""
    said = line(text, room)
    if _FIGURE.fullmatch(said):
        return said
    return '"' + said.replace('"', '\\"') + '"'


def _pairs(cells: Mapping[str, Any], room: int, depth: int) -> Iterable[str]:
    for _, (key, one) in zip(range(_ITEMS + 1), cells.items(), strict=False):
        yield f"{_string(key, VALUE)}: {_shown(one, room, depth)}"


def _shown(one: Any, room: int, depth: int) -> str:  # noqa: ANN401 - a tool's JSON
    if isinstance(one, Number):
        return str(one) if len(one) <= _LONGEST_NUMBER else f"[number of {len(one)} characters]"
    if isinstance(one, str):
        return _string(one, room)
    if isinstance(one, dict | list):
        return _nested(one, room, depth)
    if isinstance(one, bool):
        return str(one).lower()
    return "null" if one is None else ""  # nothing else comes from JSON


def _nested(one: dict[str, Any] | list[Any], room: int, depth: int) -> str:
    """All of an object or array, or its size when it does not fit or lies too deep."""
    if isinstance(one, dict):
        size = f"{{{len(one)} keys}}"
        return size if depth > _DEPTH else whole(one, room, depth) or size
    size = f"[{len(one)} items]"
    if depth > _DEPTH:
        return size
    items = (_shown(inner, room, depth + 1) for inner in one)
    return _enclosed("[", items, "]", room) or size


def _enclosed(begin: str, parts: Iterable[str], end: str, room: int) -> str:
    """All of the parts between brackets, or "" when they do not fit; read no further than that."""
    said = begin
    for part in parts:
        said += part if said == begin else f", {part}"
        if len(said) >= room:
            return ""
    return said + end


def _string(text: str, room: int) -> str:
    return prose.told(text) if prose.is_prose(text) else _quotation(text, room)


def _quotation(text: str, room: int) -> str:
    return '"' + line(text, room).replace('"', '\\"') + '"'


def _cut(text: str, limit: int, size: int) -> str:
    """`text` before the last border within `limit`; `size` is how long all of it is."""
    for border in (_after_a_word, _between_words, _between_cells):
        for place in range(min(limit - 1, len(text) - 1), 0, -1):
            if border(text, place):
                return text[:place].rstrip(" ") + "…"
    instead = f"[{size} characters]"
    return instead if len(instead) <= limit else "…"


def _after_a_word(text: str, place: int) -> bool:
    """A blank, but not between a number and its unit; or any place in a script without blanks."""
    before, after = text[place - 1], text[place]
    return (after == " " and not before.isdigit()) or bool(
        _UNSPACED.match(before) and _UNSPACED.match(after)
    )


def _between_words(text: str, place: int) -> bool:
    """Not inside a number that is grouped by blanks."""
    return text[place] == " " and not text[place + 1 : place + 2].isdigit()


def _between_cells(text: str, place: int) -> bool:
    if text[place - 1] not in ",;|\t" or "://" in text[text.rfind(" ", 0, place) + 1 : place]:
        return False
    return not (text[place].isdigit() and text[place - 2 : place - 1].isdigit())
