"""The ledger: what each covered tool call was and what came back, made by rule and never by an LLM.

In: steps. Out: entries, in order, each with a reference (`T12`) that stays the same in all later checkpoints. What is
said of a result comes from `results`; this module numbers the entries, and keeps them within a bound.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from service import tokens
from service.summarising import results, wording
from service.transcript import Step
from service.transcript.items import Call

_ARGUMENTS = 120  # characters of the arguments that an entry shows, and of a single one of several
_ARGUMENT = 60
_FEWER_ARGUMENTS = 60
_COMMENT = 200
_MESSAGES = 3  # different messages of failures in a row
_LEAST = 8  # tokens that every line takes
_SEVERAL = "several tools"
_ERRORS = re.compile(r", (\d++) errors$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One covered call, or several merged ones (`count` > 1, from `first` to `last`).

    `outcome` says in a few words what came back, `details` more of it, the most valuable first, and `short` what stands
    in their place when room is scarce.
    """

    first: int
    last: int
    tool: str
    arguments: str
    outcome: str
    failed: bool = False
    comment: str = ""
    count: int = 1
    details: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", tuple(self.details))  # stored as JSON, a list comes back
        object.__setattr__(self, "short", tuple(self.short))

    def render(self) -> str:
        """The entry as one line of the summary message."""
        name = f"T{self.first}" if self.count == 1 else f"T{self.first}–T{self.last}"
        called = f"{self.tool}({self.arguments})" if self.count == 1 else f"{self.tool} × {self.count}"
        comment = [f"then: {self.comment}"] if self.comment else []
        return f"- {name} {called} → {' | '.join([self.outcome, *self.details, *comment])}"


def extend(entries: Sequence[Entry], steps: Iterable[Step], limit: int) -> tuple[Entry, ...]:
    """`entries` and those of the newly covered steps; the oldest merge until all fit into `limit` tokens.

    Args:
        entries: the ledger of the checkpoint that this one grows from.
        steps: the newly covered steps, in order.
        limit: bound on the rendered ledger, in tokens.
    """
    number = max((entry.last for entry in entries), default=0)
    told = list(entries)
    waits = bool(told) and told[-1].count == 1  # a turn may go on where the last checkpoint ended
    for step in steps:
        if step.text or step.role != "assistant":
            if waits and not told[-1].comment and step.role == "assistant":
                told[-1] = replace(told[-1], comment=wording.line(step.text, _COMMENT))
            waits = False
        for call in step.calls:
            number += 1
            told.append(_entry(number, call))
            waits = True
    return _bounded(told, limit)


def render(entries: Sequence[Entry]) -> str:
    """All entries, one a line."""
    return "\n".join(entry.render() for entry in entries)


def describe(result: str) -> tuple[str, bool]:
    """What a tool answered, in one line, and whether it was an error."""
    found = results.read(result)
    return " | ".join([found.said, *found.details]), found.failed


def _entry(number: int, call: Call) -> Entry:
    found, images = results.read(call.result.text), len(call.result.images)
    pictures = (f"{images} image" if images == 1 else f"{images} images",) if images else ()
    return Entry(
        number,
        number,
        wording.line(call.call.name, wording.VALUE) or "tool",
        _arguments(call.call.arguments),
        found.said,
        found.failed,
        details=(*pictures, *found.details),
        short=(*pictures, *found.short) if found.short else (),
    )


def _arguments(raw: str) -> str:
    value = wording.parsed(raw)
    if not isinstance(value, dict):
        return wording.line(raw, _ARGUMENTS)
    room = _ARGUMENTS if len(value) == 1 else _ARGUMENT
    shown = wording.listed(
        (f"{wording.line(key, room)}={wording.value(one, room)}" for key, one in value.items()), _ARGUMENTS
    )
    return (
        shown if wording.WITHHELD in shown or wording.line(shown, len(shown)) != wording.WITHHELD else wording.WITHHELD
    )


def _bounded(entries: Sequence[Entry], limit: int) -> tuple[Entry, ...]:
    """Makes the oldest entries smaller, step by step, until all fit into `limit` tokens.

    First they say the same in fewer words, then they lose comments and most of their arguments, then what stood beside
    the rows, the last row, the first one, and at last columns and figures. After that the oldest merge into a line per
    tool, and with so many tools that a line each is too much, the oldest lines merge across tools.
    """
    entries = _merge_failures(entries)
    surplus = max(len(entries) - limit // _LEAST, 0)
    kept = [_fitted(entry, limit // 2) for entry in [*_merge_by_tool(entries[:surplus]), *entries[surplus:]]]
    costs = [_cost(entry) for entry in kept]
    total = sum(costs)
    for lesser in _LESSER:
        for place, entry in enumerate(kept):
            if total <= limit:
                return tuple(kept)
            if (smaller := lesser(entry)) != entry:
                kept[place] = smaller
                total -= costs[place]
                costs[place] = _cost(smaller)
                total += costs[place]
    return tuple(kept) if total <= limit else _merged(kept, limit)


def _merged(entries: list[Entry], limit: int) -> tuple[Entry, ...]:
    below = [0, *accumulate(_cost(entry) for entry in reversed(entries))][::-1]  # cost of the entries from a place on

    def fits(taken: int) -> bool:
        return sum(map(_cost, _merge_by_tool(entries[:taken]))) + below[taken] <= limit

    taken = bisect_left(range(len(entries)), True, key=fits)
    entries = [*_merge_by_tool(entries[:taken]), *entries[taken:]]
    while len(entries) > 1 and sum(map(_cost, entries)) > limit:
        entries[:2] = [_joined(entries[0], entries[1])]
    return tuple(entries)


def _cost(entry: Entry) -> int:
    return tokens.count(entry.render()) + 1


def _shorter(entry: Entry) -> Entry:
    return replace(entry, details=entry.short or entry.details, short=())


def _uncommented(entry: Entry) -> Entry:
    fewer = wording.shorten(entry.arguments, _FEWER_ARGUMENTS)
    return replace(entry, comment="", arguments=entry.arguments if fewer[:1] == "[" else fewer)


def _without(*labels: str) -> Callable[[Entry], Entry]:
    """An entry without the details of these labels."""
    return lambda entry: replace(entry, details=tuple(one for one in entry.details if not one.startswith(labels)))


def _bare(entry: Entry) -> Entry:
    return replace(entry, details=())


_LESSER: tuple[Callable[[Entry], Entry], ...] = (
    _shorter,
    _uncommented,
    _without("beside: ", "traceback "),
    _without("last: "),
    _without("first: "),
    _bare,
)


def _fitted(entry: Entry, room: int) -> Entry:
    """An entry that alone costs more than `room` tokens is made smaller until it does not."""
    for lesser in _LESSER:
        if _cost(entry) <= room:
            return entry
        entry = lesser(entry)
    most = 2 * room  # characters
    while _cost(entry) > room and most > 1:
        tool, outcome = wording.shorten(entry.tool, most // 6), wording.shorten(entry.outcome, most // 2)
        entry = replace(entry, tool=tool, arguments=wording.shorten(entry.arguments, most // 6), outcome=outcome)
        most //= 2
    return entry


def _merge_failures(entries: Sequence[Entry]) -> list[Entry]:
    """Failures of one tool in a row are one entry, with their different messages."""
    out: list[Entry] = []
    for entry in entries:
        if out and entry.failed and out[-1].failed and entry.tool == out[-1].tool:
            out[-1] = _failed_again(out[-1], entry)
        else:
            out.append(entry)
    return out


def _failed_again(old: Entry, new: Entry) -> Entry:
    count, message = old.count + new.count, _message(new)
    earlier = dict.fromkeys([*old.details, f"also: {_message(old)}"] if old.count > 1 else [f"also: {_message(old)}"])
    earlier.pop(f"also: {message}", None)
    also = tuple(one for one in earlier if one.startswith("also: "))[1 - _MESSAGES :]
    return replace(
        old,
        last=new.last,
        outcome=f"{count} failed calls, last {message}",
        count=count,
        comment=new.comment or old.comment,
        details=also,
        short=(),
    )


def _message(entry: Entry) -> str:
    return entry.outcome.removeprefix(f"{entry.count} failed calls, last ")


def _merge_by_tool(entries: Sequence[Entry]) -> list[Entry]:
    merged: dict[str, Entry] = {}
    for entry in entries:
        old = merged.get(entry.tool)
        merged[entry.tool] = _joined(old, entry) if old else entry
    return sorted(merged.values(), key=lambda entry: entry.first)


def _joined(old: Entry, new: Entry) -> Entry:
    failures, count = _failures(old) + _failures(new), old.count + new.count
    outcome = f"{count - failures} results" + (f", {failures} errors" if failures else "")
    tool = old.tool if old.tool == new.tool else _SEVERAL
    return Entry(min(old.first, new.first), max(old.last, new.last), tool, "", outcome, count=count)


def _failures(entry: Entry) -> int:
    if entry.failed:
        return entry.count
    found = _ERRORS.search(entry.outcome) if entry.count > 1 else None
    return int(found[1]) if found else 0
