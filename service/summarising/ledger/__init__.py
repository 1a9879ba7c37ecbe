"""The ledger of the tool calls that a summary covers, made by rule and never by an LLM. Pure.

In: steps. Out: entries in order, one for each call, with a reference (`T12`) that stays the same in
all later checkpoints, and lines of them within some room. What is stored is bounded; the oldest
merge first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    return (*_by_tool(grown[:surplus]), *grown[surplus:])


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
    name = f"{entry.tool}({entry.arguments})"
    reference = f"T{entry.first}"
    if entry.count > 1:
        reference += f"–T{entry.last}"
        name += f" × {entry.count}"
    return f"- {reference} {name} → {values.shorten(' | '.join(entry.parts), _OUTCOME)}"


def lines(entries: Sequence[Entry], limit: int, *, taken_up: bool = False) -> tuple[str, ...]:
    """The ledger within `limit` tokens.

    First results with values on which later calls went on have lines of their own; then, unless
    only they are asked for, the newest. Others share one for each tool.
    """
    alone = {place: line(entries[place]) for place in _ranked(entries, taken_up)}
    kept = _beside(entries, alone)
    while sum(map(_cost, kept)) > max(limit, 0):
        if alone:
            alone.popitem()
            kept = _beside(entries, alone)
        else:
            kept = kept[1:]
    return tuple(kept)


def _beside(entries: Sequence[Entry], alone: Mapping[int, str]) -> list[str]:
    """The lines of those that stand alone, and of the others by tool, in order."""
    others = _by_tool([entry for place, entry in enumerate(entries) if place not in alone])
    shown = [(entries[place].first, text) for place, text in alone.items()]
    shown += [(entry.first, line(entry)) for entry in others]
    return [text for _, text in sorted(shown)]


def _ranked(entries: Sequence[Entry], taken_up: bool) -> Sequence[int]:
    """The places, first those with most of what later arguments have for their length.

    Then the newest, unless only what is `taken_up` is wanted.
    """
    worth: dict[int, float] = {}
    asked: set[str] = set()
    for place, entry in reversed(list(enumerate(entries))):
        taken = _values(" ".join(entry.parts)) & asked
        worth[place] = len(taken) / _cost(line(entry))
        asked |= _values(entry.arguments)
    ranked = sorted(worth, key=worth.__getitem__, reverse=True)
    return [place for place in ranked if worth[place] or not taken_up]


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
    room = _ARGUMENTS if len(value) == 1 else _ARGUMENTS // 2
    named = (f"{values.word(key)}={values.value(one, room)}" for key, one in value.items())
    return values.listed(named, _ARGUMENTS)


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
    error = next((one.parts[-1:] for one in (new, old) if one.failed), ())
    return Entry(
        min(old.first, new.first),
        max(old.last, new.last),
        old.tool,
        "…",
        (f"{calls - failed} results{errors}", *error),
        failed,
        calls,
    )


@lru_cache(maxsize=4096)  # a line is weighed in each round of shrinking
def _cost(shown: str) -> int:
    return tokens.count(shown) + 1
