"""The ledger: code's list of the tool calls that a summary covers. Pure.

Each call has a reference (`T12`) that stays the same in all later checkpoints. What a tool names or
says in words stands in quotation marks, so that nothing of it looks like our own words and signs.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from service.text import characters, tokens
from service.text.plain import drop_hidden
from service.text.sentences import reports_failure
from service.text.terms import find_terms, has_digit
from service.transcript import Step
from service.transcript.items import Call

_NAME, _ARGUMENTS, _RESULT, _LINE = 80, 240, 420, 120  # characters
_ENTRIES = 160  # are stored
_TELLING = 4  # characters of a value
_FAILURE = 2000  # characters of a result that may be nothing but a failure
_LAYERS = 4  # a text in a text in a text
_EMPTY: tuple[Any, ...] = ("", "null", "None", [], {})
# A value may stand without quotation marks: it has no sign of a line, and no blank.
_BARE = re.compile(r'"(-?\w[\w.@/:+-]*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {'"': "'", "\\": "\\", "n": " ", "r": " ", "t": " "}
_UNSPACED = re.compile(f"[{characters.UNSPACED}\u3000-\u303f\uff00-\uffef]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One covered call, or several merged ones."""

    #: Number of the call; of merged ones the lowest and the highest.
    first: int
    last: int
    tool: str
    #: On one line; "" for merged calls.
    arguments: str
    #: What came back: its size, and how it begins.
    parts: tuple[str, ...]
    #: Number of its calls that failed.
    failed: int = 0
    #: Number of its calls.
    count: int = 1


def extend(entries: Sequence[Entry], steps: Iterable[Step]) -> tuple[Entry, ...]:
    """Adds the calls of newly covered steps; the oldest are merged when there are too many."""
    calls = chain.from_iterable(step.calls for step in steps)
    numbered = enumerate(calls, find_last_number(entries) + 1)
    grown = [*entries, *(describe_call(number, call) for number, call in numbered)]
    if len(grown) <= _ENTRIES:
        return tuple(grown)
    # Some more at once, or each further call would merge again.
    surplus = len(grown) - _ENTRIES * 3 // 4
    return (*_merge_by_tool(grown[:surplus]), *grown[surplus:])


def add_unread_calls(entries: Sequence[Entry], count: int) -> tuple[Entry, ...]:
    """Adds an entry for `count` calls that nobody could read, so that later numbers stay right."""
    if not count:
        return tuple(entries)
    last = find_last_number(entries)
    parts = ("too hard to read",)
    unread = Entry(last + 1, last + count, "several tools", "", parts, count=count)
    return (*entries, unread)


def find_last_number(entries: Sequence[Entry]) -> int:
    """Finds the highest number, which after a merge need not be in the last entry."""
    return max((entry.last for entry in entries), default=0)


def describe_call(number: int, call: Call) -> Entry:
    """Makes the entry of one call."""
    text = tokens.drop_data(call.result.text).strip()
    parts = list(_describe_result(text))
    images = len(call.result.images)
    if images:
        parts.insert(1, _count_things(images, "image"))
    failed = len(text) <= _FAILURE and reports_failure(text)
    return Entry(
        number, number, _write_tool(call), _write_arguments(call), tuple(parts), int(failed)
    )


def write_call(call: Call) -> str:
    """Writes the name and the arguments of a call."""
    return f"{_write_tool(call)}({_write_arguments(call)})"


def write_line(entry: Entry) -> str:
    """Writes an entry on one line."""
    return f"- T{entry.first} {entry.tool}({entry.arguments}) → {' | '.join(entry.parts)}"


class LedgerLines(NamedTuple):
    """The lines of a ledger within some room."""

    #: Calls with a line of their own, in order.
    entries: tuple[Entry, ...]
    #: One line for all others; "" where there are none, or no room.
    others: str

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines."""
        others = (self.others,) if self.others else ()
        return (*map(write_line, self.entries), *others)


def choose(entries: Sequence[Entry], limit: int, *, used: bool = False) -> LedgerLines:
    """Chooses the lines of a ledger for `limit` tokens.

    Calls on whose results later ones went on come first, then the newest unless `used` is set.
    """
    chosen: set[int] = set()
    left = limit
    for place in _rank_places(entries, used):
        cost = _count_line(write_line(entries[place]))
        if entries[place].count == 1 and cost <= left:
            left -= cost
            chosen.add(place)
    others = [entry for place, entry in enumerate(entries) if place not in chosen]
    told = _write_others(others) if others else ""
    return LedgerLines(
        entries=tuple(entries[place] for place in sorted(chosen)),
        others=told if _count_line(told) <= left else "",
    )


def _write_others(others: Sequence[Entry]) -> str:
    """Writes calls by their tools on one line."""
    counted: list[str] = []
    for entry in _merge_by_tool(others):
        times = f" × {entry.count}" if entry.count > 1 else ""
        failed = f" ({entry.failed} failed)" if entry.failed else ""
        counted.append(f"{entry.tool}{times}{failed}")
    first, last = others[0].first, find_last_number(others)
    reference = f"T{first}–T{last}" if last > first else f"T{first}"
    return f"- {reference} {_shorten(', '.join(counted), _RESULT)}"


def _rank_places(entries: Sequence[Entry], used: bool) -> Sequence[int]:
    """Ranks the places of calls by how much of their results later arguments have.

    For calls of the same worth, the newest come first.
    """
    worth: dict[int, float] = {}
    asked: set[str] = set()
    for place, entry in reversed(list(enumerate(entries))):
        taken = _find_values(" ".join(entry.parts)) & asked
        worth[place] = len(taken) / _count_line(write_line(entry))
        asked |= _find_values(entry.arguments)
    ranked = sorted(worth, key=worth.__getitem__, reverse=True)
    return [place for place in ranked if worth[place] or not used]


@lru_cache(maxsize=4096)
def _find_values(text: str) -> frozenset[str]:
    """Finds the values of a text that are hardly there by chance."""
    return frozenset(term for term in find_terms(text) if has_digit(term) and len(term) >= _TELLING)


def _merge_by_tool(entries: Sequence[Entry]) -> list[Entry]:
    """Merges calls to one entry for each tool."""
    merged: dict[str, Entry] = {}
    for entry in entries:
        old = merged.get(entry.tool, replace(entry, failed=0, count=0))
        merged[entry.tool] = replace(
            old,
            last=entry.last,
            arguments="",
            parts=(),
            failed=old.failed + entry.failed,
            count=old.count + entry.count,
        )
    return list(merged.values())


@lru_cache(maxsize=4096)  # a line is weighed several times
def _count_line(shown: str) -> int:
    """Counts the tokens of a line."""
    return tokens.count(shown) + 1


def _write_tool(call: Call) -> str:
    """Writes the name of a tool."""
    return _write_value(call.call.name, _NAME) if call.call.name.strip() else "tool"


def _write_arguments(call: Call) -> str:
    """Writes the arguments on one line; text that is no JSON is quoted whole."""
    raw = call.call.arguments
    given = _parse(raw)
    return _write_value(raw if given is None else given, _ARGUMENTS) if raw.strip() else ""


def write_outline(call: Call) -> str:
    """Writes a call with the size and the end of its long result, without its beginning."""
    value = _unwrap_result(tokens.drop_data(call.result.text).strip())
    ends = [_describe_end(value)] if isinstance(value, str) and value else []
    return f"{write_call(call)} → {' | '.join([*_describe_size(value), *ends])}"


def _describe_result(text: str) -> Iterator[str]:
    """Yields the parts of a result: its size, unless it is short, and how it begins."""
    value = _unwrap_result(text)
    if value in _EMPTY:
        yield "empty result"
        return
    yield from _describe_size(value)
    if not isinstance(value, str) or len(value) <= _RESULT:
        yield _write_value(value, _RESULT)
        return
    yield f"begins {_write_value(value, _RESULT // 2)}"
    yield _describe_end(value)


def _describe_size(value: Any) -> Iterator[str]:  # noqa: ANN401 - a tool's JSON
    """Yields the size of a result, and the failures that it reports."""
    if isinstance(value, list):
        yield _count_things(len(value), "item")
    if not isinstance(value, str) or len(value) <= _RESULT:
        return
    written = [one for one in value.splitlines() if one.strip()]
    yield f"{_count_things(len(written), 'line')} ({len(value)} characters)"
    failures = [one for one in written if reports_failure(one)]
    if failures:
        yield f"{len(failures)} report a failure: {_write_value(failures[0], _LINE)}"


def _describe_end(value: str) -> str:
    """Describes how a text ends, which may be of blanks alone."""
    *_, last = ["", *value.rstrip().splitlines()]
    return f"ends {_write_value(last, _LINE)}"


def _unwrap_result(text: str) -> Any:  # noqa: ANN401 - a tool's JSON
    """Parses a result; returns the innermost of texts within texts or within parts of MCP."""
    value: Any = text
    for _ in range(_LAYERS):
        content = value.get("content") if isinstance(value, dict) else value
        if isinstance(content, list) and content and all(map(_is_text_part, content)):
            value = "\n".join(part["text"] for part in content)
        if not isinstance(value, str):
            return value
        inner = _parse(value)
        if inner is None or isinstance(inner, _Number):
            return value.strip()
        value = inner
    return value


def _is_text_part(one: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    return isinstance(one, dict) and one.get("type") == "text" and isinstance(one.get("text"), str)


class _Number(str):
    """A JSON number as it stands in the source: `12847.50`, not 12847.5."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    parse_int=_Number, parse_float=_Number, parse_constant=_Number, strict=False
)


def _parse(text: str) -> Any:  # noqa: ANN401 - a tool's JSON
    """Parses a JSON text; None when it is no JSON, nested too deeply, or `null`."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _write_value(value: Any, room: int) -> str:  # noqa: ANN401 - a tool's JSON
    """Writes a value as JSON on one line of about `room` characters.

    One word stands without quotation marks. Numbers stay as they are, and no word is cut.
    """
    if isinstance(value, str):
        value = value[: room * 4]
    written = drop_hidden(json.dumps(value, ensure_ascii=False))
    bare = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), written)
    line = _BARE.sub(r"\1", " ".join(bare.split()))
    shown = _shorten(line, room)
    if shown.count('"') % 2:
        shown += '"'
    return shown.removeprefix("{").removesuffix("}") if isinstance(value, dict) else shown


def _shorten(text: str, limit: int) -> str:
    """Shortens a line to `limit` characters, cut between words."""
    if len(text) <= limit:
        return text
    for place in range(limit - 1, 0, -1):
        if text[place] == " " or (
            _UNSPACED.match(text[place - 1]) and _UNSPACED.match(text[place])
        ):
            return text[:place].rstrip(" ,;") + "…"
    # One long word, such as an address: a part of it would be another one.
    return "…"


def _count_things(count: int, what: str) -> str:
    """Writes a number with its noun."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
