"""The lines of a reply; JSON becomes lines of the form that was asked for. Pure.

`docs/summariser.md` has the form. Of an object the names are heads, and of what stands under a name
that nobody knows only texts are taken: no brackets, names or bare numbers get into a narrative.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_OBJECT = re.compile(r"^[ \t]{0,20}\{(?=\s{0,80}[\"}])", re.MULTILINE)
_OPENING = 300  # characters that may stand before an object which is the whole reply
_TRAILING_COMMA = re.compile(r",(?=\s{0,80}[}\]])")
_PIECE = re.compile(r"\A\s*+[{}\[\],\"]")
_NUMBERS = re.compile(r"P?\d[P\d.,;\s–-]*")
_ELSEWHERE = "Current state"
# Numbers stay as they are written: 12.10 is not 12.1.
_DECODER = json.JSONDecoder(strict=False, parse_float=str, parse_int=str)

Known = Callable[[str], bool]
"""Whether a name is a head, or what a line begins with."""


def lines(text: str, known: Known) -> list[str]:
    """The lines of a reply in the form that was asked for."""
    begin = _OBJECT.search(text)
    if not begin:
        return text.splitlines()
    before, rest = text[: begin.start()], text[begin.end() - 1 :]
    whole = len(before) <= _OPENING and "#" not in before
    found = _decoded(rest)
    if found and (whole or any(map(known, found[0]))):
        told, after = found
        return [*before.splitlines(), *_told(told, known), f"## {_ELSEWHERE}", *after.splitlines()]
    # An object inside other text is an example in it, or a value.
    if not whole:
        return text.splitlines()
    # JSON that cannot be decoded: what stands in it as plain lines may still say something.
    clear = [line for line in rest.splitlines() if not _PIECE.match(line)]
    return [*before.splitlines(), *clear]


def _decoded(text: str) -> tuple[dict[str, Any], str] | None:
    """The object that a text begins with, and what stands behind it."""
    for one in (text, _TRAILING_COMMA.sub("", text)):
        try:
            told, end = _DECODER.raw_decode(one)
        except (ValueError, RecursionError):
            continue
        return told, one[end:]
    return None


def _told(told: dict[str, Any], known: Known, above: str = "") -> Iterator[str]:
    """What stands under each name, below a head."""
    for name, value in told.items():
        head = _head(name, above, known)
        yield f"## {head or _ELSEWHERE}"
        if isinstance(value, dict) and not _has_numbers(value):
            yield from _told(value, known, name if head else "")
            continue
        said = _lines_of(value, known)
        # Under an unknown name a bare number means nothing.
        yield from said if head else filter(_has_letters, said)


def _head(name: str, above: str, known: Known) -> str:
    """A name as a head, perhaps together with the one above it; "" for an unknown one."""
    return next((one for one in (f"{above} {name}", name) if known(one)), "")


def _has_numbers(value: dict[str, Any]) -> bool:
    """Whether numbers of sentences or pins stand where names do: `{"12.3": "fact"}`."""
    return any(map(_NUMBERS.fullmatch, value))


def _has_letters(line: str) -> bool:
    return any(map(str.isalpha, line))


def _lines_of(value: Any, known: Known) -> Iterator[str]:  # noqa: ANN401 - JSON
    """A value as lines: a text, a list of them, or objects: `{"kind": "fact", "by": "12.3"}`."""
    if isinstance(value, list) and _NUMBERS.fullmatch(_text(value)):
        value = _text(value)
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            yield from _lines_of_object(one, known)
        else:
            yield from _text(one).splitlines()


def _lines_of_object(one: dict[str, Any], known: Known) -> Iterator[str]:
    if _has_numbers(one):
        yield from (f"{name}: {_text(words)}" for name, words in one.items())
        return
    texts = [_text(part) for part in one.values()]
    kind = next((text for text in texts if text and known(text)), "")
    words = " ".join(text for text in texts if text != kind)
    yield f"keep {kind}: {words}" if kind else words


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    """A text or a number; a list of them on one line; else nothing."""
    if isinstance(value, list):
        return ", ".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
