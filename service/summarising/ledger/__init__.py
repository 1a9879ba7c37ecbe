"""The ledger of the tool calls that a summary covers, made by rule and never by an LLM. Pure.

In: steps. Out: entries in order, one for each call, with a reference (`T12`) that stays the same in
all later checkpoints, and lines of them within some room. What is stored is bounded; the oldest
merge first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, count

from service.summarising.ledger import results, values
from service.text import tokens
from service.transcript import Step
from service.transcript.items import Call

_ARGUMENTS = 240  # characters
_FEWER_ARGUMENTS = 120  # of several calls
_SEVERAL = "several tools"
_ENTRIES = 160  # are stored
_LEAST = 8  # tokens that every line takes
_LEVELS = tuple(
    (outcome, min(20 + outcome * 3 // 10, _ARGUMENTS))
    for outcome in (800, 560, 400, 280, 200, 140, 100, 70, 50)
)
"""Characters of what came back and of arguments that a line has, from level to level."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One covered call, or several merged ones.

    Attributes:
        first: its number; of merged ones the lowest.
        last: the highest number.
        tool: its name.
        arguments: on one line; of merged ones as many as fit.
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
    grown = list(entries)
    numbers = count(last_number(grown) + 1)
    for call in chain.from_iterable(step.calls for step in steps):
        _add(grown, of(next(numbers), call))
    return tuple(_few_enough(grown))


def _add(grown: list[Entry], entry: Entry) -> None:
    """Failures of one tool in a row are one entry, by the last of them."""
    last = grown[-1] if grown else None
    if last and last.tool == entry.tool and last.failed == last.count and entry.failed:
        count = last.count + 1
        grown[-1] = replace(entry, first=last.first, count=count, failed=count)
    else:
        grown.append(entry)


def unread_calls(entries: Sequence[Entry], count: int) -> tuple[Entry, ...]:
    """`entries`, and one for `count` calls that nobody could read, so that numbers go on right."""
    if not count:
        return tuple(entries)
    first = last_number(entries) + 1
    parts = ("too hard to read",)
    return (*entries, Entry(first, first + count - 1, _SEVERAL, "", parts, count=count))


def of(number: int, call: Call) -> Entry:
    """A call by itself."""
    outcome = results.read(call.result.text, call.call.arguments)
    images = len(call.result.images)
    pictures = (f"{images} image" + "s" * (images > 1),) if images else ()
    tool = values.line(call.call.name, values.VALUE) or "tool"
    arguments = _arguments(call.call.arguments)
    parts = (*outcome.parts[:1], *pictures, *outcome.parts[1:])
    return Entry(number, number, tool, arguments, parts, int(outcome.failed))


def called(call: Call) -> str:
    """A call without its result: its name and its arguments."""
    tool = values.line(call.call.name, values.VALUE) or "tool"
    return f"{tool}({_arguments(call.call.arguments)})"


def line(entry: Entry, level: int = 0) -> str:
    """An entry on one line; from level to level shorter."""
    outcome, arguments = _LEVELS[level]
    name = f"{entry.tool}({values.shorten(entry.arguments, arguments)})"
    reference = f"T{entry.first}"
    if entry.count > 1:
        reference += f"–T{entry.last}"
        name += f" × {entry.count}"
    return f"- {reference} {name} → {values.shorten(' | '.join(entry.parts), outcome)}"


def lines(entries: Sequence[Entry], limit: int) -> tuple[str, ...]:
    """The ledger within `limit` tokens: the oldest entries get shorter first, then they merge."""
    for kept in _merges(entries, limit):
        shown = [line(entry) for entry in kept]
        size = sum(map(_cost, shown))
        for level in range(1, len(_LEVELS)):
            for place, entry in enumerate(kept):
                if size <= limit:
                    return tuple(shown)
                size -= _cost(shown[place])
                shown[place] = line(entry, level)
                size += _cost(shown[place])
        if size <= limit:
            return tuple(shown)
    return ()


def _merges(entries: Sequence[Entry], limit: int) -> Iterator[Sequence[Entry]]:
    """The entries; then with more and more of the oldest merged, by tool, and at last all."""
    few = max(limit // _LEAST, 1)
    surplus = max(len(entries) - few, 0)
    while surplus < len(entries):
        yield _merged_first(entries, surplus)
        surplus = surplus * 2 or max(len(entries) // 4, 2)
    if entries:
        yield _by_tool(entries)


def last_number(entries: Sequence[Entry]) -> int:
    """The highest number; after a merge it need not be that of the last entry."""
    return max((entry.last for entry in entries), default=0)


def _arguments(raw: str) -> str:
    value = values.parsed(raw)
    if not isinstance(value, dict):
        return values.line(raw, _ARGUMENTS)
    room = _ARGUMENTS if len(value) == 1 else _ARGUMENTS // 2
    named = (f"{key}={values.value(one, room)}" for key, one in value.items())
    return values.listed(named, _ARGUMENTS)


def _few_enough(entries: Sequence[Entry]) -> Sequence[Entry]:
    surplus = len(entries) - _ENTRIES
    if surplus <= 0:
        return entries
    # Some more at once, or each further call would merge again.
    return _merged_first(entries, surplus + _ENTRIES // 4)


def _merged_first(entries: Sequence[Entry], count: int) -> list[Entry]:
    """The first `count` of them in one for each tool, and the others as they are."""
    return [*_by_tool(entries[:count]), *entries[count:]] if count else list(entries)


def _by_tool(entries: Sequence[Entry]) -> list[Entry]:
    merged: dict[str, Entry] = {}
    for entry in entries:
        old = merged.get(entry.tool)
        merged[entry.tool] = _joined(old, entry) if old else entry
    return sorted(merged.values(), key=lambda entry: entry.first)


def _joined(old: Entry, new: Entry) -> Entry:
    """Both in one."""
    calls, failed = old.count + new.count, old.failed + new.failed
    errors = f", {failed} errors" if failed else ""
    return Entry(
        min(old.first, new.first),
        max(old.last, new.last),
        old.tool,
        values.shorten("; ".join(filter(None, [old.arguments, new.arguments])), _FEWER_ARGUMENTS),
        (f"{calls - failed} results{errors}",),
        failed,
        calls,
    )


@lru_cache(maxsize=4096)  # a line is weighed in each round of shrinking
def _cost(shown: str) -> int:
    return tokens.count(shown) + 1
