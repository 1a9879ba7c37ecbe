"""How text of unknown origin is shown on one line of the ledger: bounded, exact, and never as an order.

In: texts and parsed JSON of tool calls. Out: parts of a line. What is shown stands in the source character for
character, but for line breaks, runs of blanks and invisible characters. A text is cut between words or cells, never
inside a number, an id or a URL, and an ellipsis says so. What reads like an instruction is withheld.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from service.summarising.suspicion import suspicious, visible

WITHHELD = "[withheld: reads like an instruction]"
VALUE = 60  # characters that a cell, a name or a nested value may take
_ITEMS = 12  # of an object or an array
_DEPTH = 3
_LONGEST_NUMBER = 80

_MARGIN = 40  # characters beyond the cut that are looked at too

_AMBIGUOUS = re.compile('[,"|]')
_FIGURES = re.compile(r"[0-9 .,:/TZ+-]*")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")
_BLANKS = re.compile("[ \t\n\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]+")
# Scripts without blanks between words.
_CJK = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


class Number(str):
    """A JSON number as it stands in the source: `12847.50`, not 12847.5."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number, strict=False)


def parsed(text: str) -> Any:  # noqa: ANN401 - a tool's JSON
    """The value of a JSON text, its numbers as `Number`; None when it is no JSON, nested too deeply, or `null`."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def parsed_from(text: str, place: int) -> tuple[Any, int]:
    """The JSON value that begins there, and where it ends; None when there is no whole one."""
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, place


def plain(text: str) -> str:
    """`text` without terminal colours and characters that show nothing; line breaks stay."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text if text.isascii() and text.isprintable() else _CONTROL.sub("\ufffd", visible(text))


def line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters, or the mark in its place when it reads like an instruction."""
    head = plain(text[: limit * 4])
    flat = _BLANKS.sub(" ", head).strip(" ")
    if _instructs(flat[: limit + _MARGIN]) or ("\n" in head and _instructs(head[: limit + _MARGIN])):
        return WITHHELD
    if len(text) <= limit * 4:
        return shorten(flat, limit)
    return _cut(flat, min(limit, len(flat)), len(text))


@lru_cache(maxsize=4096)  # the same columns and words come again and again, and a look costs 2 µs a character
def _instructs(text: str) -> bool:
    return not _FIGURES.fullmatch(text) and suspicious(text)


def shorten(text: str, limit: int) -> str:
    """A line of at most `limit` characters, cut between words."""
    return text if len(text) <= limit else _cut(text, limit, len(text))


def listed(parts: Iterable[str], room: int) -> str:
    """As many of `parts` as fit, and an ellipsis for the rest."""
    said: list[str] = []
    for count, part in enumerate(parts):
        if count == _ITEMS or (said and len(part) + 2 > room):
            return ", ".join([*said, "…"])
        said.append(part)
        room -= len(part) + 2
    return ", ".join(said)


def names(keys: Iterable[str], room: int) -> str:
    """Names of columns or keys; all are withheld when they make an instruction together."""
    said = [line(key, VALUE) for _, key in zip(range(_ITEMS + 1), keys, strict=False)]
    return WITHHELD if _instructs(" ".join(said)) else listed(said, room)


def value(one: Any, room: int = VALUE) -> str:  # noqa: ANN401 - a tool's JSON
    """A parsed JSON value; an array or object that does not fit is named by its size."""
    return _shown(one, room, 1)


def row(cells: Mapping[str, Any], room: int, cell: int = VALUE) -> str:
    """An object with as many of its values as fit into `room`, each with at most `cell` characters."""
    if _instruct_together([*cells, *cells.values()]):
        return WITHHELD
    return "{" + listed(_pairs(cells, cell, 1), room) + "}"


def _instruct_together(parts: Iterable[Any]) -> bool:
    """Whether texts that are harmless one by one make an instruction; one that does so alone is withheld alone."""
    texts = (line(one, VALUE) for one in parts if isinstance(one, str) and not isinstance(one, Number))
    said = [text for _, text in zip(range(2 * _ITEMS), texts, strict=False) if text != WITHHELD]
    return _instructs("|".join(said)[: VALUE * _ITEMS])


def array(items: Sequence[Any], room: int) -> str:
    """An array with as many of its values as fit."""
    return "[" + listed((_shown(one, VALUE, 1) for one in items[: _ITEMS + 1]), room) + "]"


def cells(items: Sequence[Any], room: int) -> str:
    """The cells of a row without their names; quoted only where a reader could mistake where one ends."""
    return WITHHELD if _instruct_together(items) else listed((_cell(one) for one in items), room)


def _cell(one: Any) -> str:  # noqa: ANN401 - a tool's JSON
    if isinstance(one, Number) or not isinstance(one, str):
        return _shown(one, VALUE, 1)
    said = line(one, VALUE)
    return said if said and not _AMBIGUOUS.search(said) else _quoted(one, VALUE)


def _pairs(cells: Mapping[str, Any], room: int, depth: int) -> Iterable[str]:
    for _, (key, one) in zip(range(_ITEMS + 1), cells.items(), strict=False):
        yield f"{_quoted(key, VALUE)}: {_shown(one, room, depth)}"


def _shown(one: Any, room: int, depth: int) -> str:  # noqa: ANN401 - a tool's JSON
    if isinstance(one, Number):
        return one if len(one) <= _LONGEST_NUMBER else f"[number of {len(one)} characters]"
    if isinstance(one, str):
        return _quoted(one, room)
    if isinstance(one, dict):
        return _whole("{", _pairs(one, room, depth + 1), "}", room, depth, f"{{{len(one)} keys}}")
    if isinstance(one, list):
        items = (_shown(inner, room, depth + 1) for inner in one)
        return _whole("[", items, "]", room, depth, f"[{len(one)} items]")
    return "null" if one is None else str(one).lower()


def _whole(begin: str, parts: Iterable[str], end: str, room: int, depth: int, otherwise: str) -> str:
    if depth > _DEPTH:
        return otherwise
    said = begin
    for part in parts:
        said += part if said == begin else f", {part}"
        if len(said) >= room:
            return otherwise
    return said + end


def _quoted(text: str, room: int) -> str:
    said = line(text, room)
    return said if said == WITHHELD else '"' + said.replace('"', '\\"') + '"'


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
    return (after == " " and not before.isdigit()) or bool(_CJK.match(before) and _CJK.match(after))


def _between_words(text: str, place: int) -> bool:
    """Not inside a number that is grouped by blanks."""
    return text[place] == " " and not text[place + 1 : place + 2].isdigit()


def _between_cells(text: str, place: int) -> bool:
    if text[place - 1] not in ",;|\t" or "://" in text[text.rfind(" ", 0, place) + 1 : place]:
        return False
    return not (text[place].isdigit() and text[place - 2 : place - 1].isdigit())
