"""The ledger of the tool calls that a summary covers, made by rule and never by an LLM. Pure.

In: steps. Out: entries in order, one for each call, with a reference (`T12`) that stays the same in
all later checkpoints, and lines of them within some room. What is stored is bounded; the oldest
merge first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from service.summarising.ledger import results, values
from service.text import tokens
from service.text.terms import has_digit, terms
from service.transcript import Step
from service.transcript.items import Call

_ARGUMENTS = 240  # characters
_ENTRIES = 160  # are stored
_TELLING = 4  # characters of a value
_OUTCOME = 400  # characters


@dataclass(frozen=True, slots=True)
class Entry:
    """One covered call, or several merged ones.

    Attributes:
        first: its number; of merged ones the lowest.
        last: the highest number.
        tool: its name.
        arguments: on one line; of merged ones none.
        parts: what came back, the most valuable first.
        failed: how many of its calls failed.
        count: how many calls it stands for.
    """

    first: int
    last: int
    tool: str
    arguments: str
    parts: tuple[str, ...]
    failed: int = 0
    count: int = 1


def extend(entries: Sequence[Entry], steps: Iterable[Step]) -> tuple[Entry, ...]:
    """`entries` and those of the newly covered steps, which are in order."""
    calls = chain.from_iterable(step.calls for step in steps)
    numbered = enumerate(calls, last_number(entries) + 1)
    grown = [*entries, *(of(number, call) for number, call in numbered)]
    if len(grown) <= _ENTRIES:
        return tuple(grown)
    # Some more at once, or each further call would merge again.
    surplus = len(grown) - _ENTRIES * 3 // 4
    return (*_merge_by_tool(grown[:surplus]), *grown[surplus:])


def unread_calls(entries: Sequence[Entry], count: int) -> tuple[Entry, ...]:
    """`entries`, and one for `count` calls that nobody could read, so that numbers go on right."""
    if not count:
        return tuple(entries)
    last, told = last_number(entries), ("too hard to read",)
    return (*entries, Entry(last + 1, last + count, "several tools", "", told, count=count))


def of(number: int, call: Call) -> Entry:
    """A call by itself."""
    outcome = results.read(call.result.text)
    images = len(call.result.images)
    pictures = (f"{images} image" + "s" * (images > 1),) if images else ()
    arguments = _arguments(call.call.arguments)
    parts = (*outcome.parts[:1], *pictures, *outcome.parts[1:])
    return Entry(number, number, _tool(call), arguments, parts, int(outcome.failed))


def called(call: Call) -> str:
    """A call without its result: its name and its arguments."""
    return f"{_tool(call)}({_arguments(call.call.arguments)})"


def line(entry: Entry) -> str:
    """An entry on one line."""
    outcome = values.shorten(" | ".join(entry.parts), _OUTCOME)
    return f"- T{entry.first} {entry.tool}({entry.arguments}) → {outcome}"


def lines(entries: Sequence[Entry], limit: int, *, used: bool = False) -> tuple[str, ...]:
    """The ledger within `limit` tokens, in order.

    Calls on whose results later ones went on come first; then, unless only `used` ones are asked
    for, the newest. All others share the last line, if it has room.
    """
    shown: dict[int, str] = {}
    left = limit
    for place in _rank(entries, used):
        if entries[place].count > 1:
            continue
        text = line(entries[place])
        if _cost(text) <= left:
            left -= _cost(text)
            shown[place] = text
    others = [entry for place, entry in enumerate(entries) if place not in shown]
    kept = [text for _, text in sorted(shown.items())]
    if others and _cost(_line_of(others)) <= left:
        kept.append(_line_of(others))
    return tuple(kept)


def _line_of(others: Sequence[Entry]) -> str:
    """Calls by their tools on one line."""
    counted: list[str] = []
    for entry in _merge_by_tool(others):
        times = f" × {entry.count}" if entry.count > 1 else ""
        failed = f" ({entry.failed} failed)" if entry.failed else ""
        counted.append(f"{entry.tool}{times}{failed}")
    first, last = others[0].first, last_number(others)
    reference = f"T{first}–T{last}" if last > first else f"T{first}"
    return f"- {reference} {values.shorten(', '.join(counted), _OUTCOME)}"


def _rank(entries: Sequence[Entry], used: bool) -> Sequence[int]:
    """The places, first those with most of what later arguments have for their length.

    Then the newest, unless only `used` ones are wanted.
    """
    worth: dict[int, float] = {}
    asked: set[str] = set()
    for place, entry in reversed(list(enumerate(entries))):
        taken = _values(" ".join(entry.parts)) & asked
        worth[place] = len(taken) / _cost(line(entry))
        asked |= _values(entry.arguments)
    ranked = sorted(worth, key=worth.__getitem__, reverse=True)
    return [place for place in ranked if worth[place] or not used]


@lru_cache(maxsize=4096)
def _values(text: str) -> frozenset[str]:
    """The values of a text that are hardly there by chance."""
    return frozenset(term for term in terms(text) if has_digit(term) and len(term) >= _TELLING)


def last_number(entries: Sequence[Entry]) -> int:
    """The highest number; after a merge it need not be that of the last entry."""
    return max((entry.last for entry in entries), default=0)


def _tool(call: Call) -> str:
    return values.word(call.call.name) if call.call.name.strip() else "tool"


def _arguments(raw: str) -> str:
    """The arguments on one line; what is no JSON is quoted whole."""
    value = values.parsed(raw)
    if value is None:
        return values.quoted(raw, _ARGUMENTS) if raw.strip() else ""
    if not isinstance(value, dict):
        return values.value(value, _ARGUMENTS)
    return values.fields(value, _ARGUMENTS)


def _merge_by_tool(entries: Sequence[Entry]) -> list[Entry]:
    """One for each tool, with what its calls have in common."""
    merged: dict[str, Entry] = {}
    for entry in entries:
        old = merged.get(entry.tool, replace(entry, failed=0, count=0))
        merged[entry.tool] = Entry(
            first=old.first,
            last=entry.last,
            tool=entry.tool,
            arguments="",
            parts=(),
            failed=old.failed + entry.failed,
            count=old.count + entry.count,
        )
    return list(merged.values())


@lru_cache(maxsize=4096)  # a line is weighed several times
def _cost(shown: str) -> int:
    return tokens.count(shown) + 1
