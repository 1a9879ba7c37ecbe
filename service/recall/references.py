"""Resolves a reference on a path: `T12`, `M34` or `12.3`. Pure.

`T12` is the twelfth tool call, as the ledger numbers them. `M34` is the message at depth 34. `12.3`
is a sentence, as summaries number them, and leads to the message of the twelfth step. A reference
never changes its meaning on a branch, because it counts what stands above.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_COUNTED = re.compile(r"\s*(?:([TM])\s?)?(\d{1,9})(?:\.\d{1,9})?\s*", re.IGNORECASE)
_NEARBY = 2  # references that are offered on each side of an unknown one

CallCounts = Sequence[int]
"""The number of calls in each step of a message."""


@dataclass(frozen=True, slots=True)
class Target:
    """The message or the call that a reference leads to."""

    #: Place of the message in the path, from 0.
    message: int
    #: Number of the call in the message, from 1; 0 for the message itself.
    call: int
    #: Number of calls in all messages above.
    calls_above: int


@dataclass(frozen=True, slots=True)
class UnknownReference:
    """A reference that leads nowhere."""

    #: Existing references that are nearest to it.
    nearby: tuple[str, ...]


def resolve(reference: str, path: Sequence[CallCounts]) -> Target | UnknownReference:
    """The target of a reference on the covered part of a path, which begins at the root."""
    counted = _COUNTED.fullmatch(reference)
    if not counted:
        # Nothing is near to other words, so the newest messages are offered.
        return UnknownReference(_list_nearby("M", len(path), len(path)))
    number = int(counted[2])
    match (counted[1] or "").upper():
        case "T":
            return _resolve_call(number, path)
        case "M":
            return _resolve_message(number, path)
        case _:
            return _resolve_step(number, path)


def count_calls_above(path: Sequence[CallCounts]) -> list[int]:
    """The number of calls above each message."""
    totals = [0, *accumulate(map(sum, path))]
    return totals[: len(path)]


def _resolve_message(number: int, path: Sequence[CallCounts]) -> Target | UnknownReference:
    if not 1 <= number <= len(path):
        return UnknownReference(_list_nearby("M", number, len(path)))
    return Target(number - 1, 0, count_calls_above(path)[number - 1])


def _resolve_call(number: int, path: Sequence[CallCounts]) -> Target | UnknownReference:
    totals = list(accumulate(map(sum, path)))
    place = _find_place(number, totals)
    if place is None:
        return UnknownReference(_list_nearby("T", number, totals[-1] if totals else 0))
    calls_above = totals[place] - sum(path[place])
    return Target(place, number - calls_above, calls_above)


def _resolve_step(number: int, path: Sequence[CallCounts]) -> Target | UnknownReference:
    totals = list(accumulate(map(len, path)))
    place = _find_place(number, totals)
    if place is None:
        return UnknownReference(_list_nearby("M", len(path), len(path)))
    return Target(place, 0, count_calls_above(path)[place])


def _find_place(number: int, totals: Sequence[int]) -> int | None:
    """The first place whose running total reaches `number`; None if the totals are lower."""
    place = bisect_left(totals, number)
    return place if number > 0 and place < len(totals) else None


def _list_nearby(kind: str, number: int, last: int) -> tuple[str, ...]:
    """The references of one kind around a number, of which `last` is the highest."""
    middle = min(max(number, 1), last)
    first = max(middle - _NEARBY, 1)
    end = min(middle + _NEARBY, last)
    return tuple(f"{kind}{nearby}" for nearby in range(first, end + 1))
