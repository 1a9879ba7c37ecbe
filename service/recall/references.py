"""What a reference means on a path: `T12`, `M34`, `12.3`, `marker:…`, or the id of a call. Pure.

`T12` is the twelfth call of a tool, as the ledger numbers them; `M34` the message at depth 34;
`12.3` a sentence, as summaries number them, and so the message of the twelfth step. On a branch
they mean the same for ever, because they count what stands above.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_COUNTED = re.compile(r"\s*(?:([TM])\s?)?(\d{1,9})(?:\.\d{1,9})?\s*", re.IGNORECASE)
_MARKER = "marker:"
_NEAR = 2  # references before and behind the one that was asked for

CallCounts = Sequence[int]  # of a message: how many calls each of its steps has


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference leads to.

    Attributes:
        message: its place in the path, from 0.
        call: which call of the message, from 1; 0 for the message itself.
        before: how many calls stand above the message.
    """

    message: int
    call: int
    before: int


@dataclass(frozen=True, slots=True)
class Missing:
    """Nothing; `near` are references that there are."""

    near: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdReference:
    """What only the texts can tell: `id` is that of a call, or of a `marker`."""

    id: str
    marker: bool


def meant(reference: str, path: Sequence[CallCounts]) -> Target | Missing | IdReference:
    """What a reference leads to in the covered part of a path, from the root on."""
    if reference.strip().lower().startswith(_MARKER):
        return IdReference(reference.strip()[len(_MARKER) :].strip(" []"), marker=True)
    counted = _COUNTED.fullmatch(reference)
    if not counted:
        return IdReference(reference.strip(), marker=False)
    number = int(counted[2])
    match (counted[1] or "").upper():
        case "T":
            return _call(number, path)
        case "M":
            return _message(number, path)
        case _:
            return _step(number, path)


def above(path: Sequence[CallCounts]) -> list[int]:
    """How many calls stand above each message."""
    return [0, *accumulate(sum(one) for one in path)][: len(path)]


def _message(number: int, path: Sequence[CallCounts]) -> Target | Missing:
    if not 1 <= number <= len(path):
        return Missing(_near("M", number, len(path)))
    return Target(number - 1, 0, above(path)[number - 1])


def _call(number: int, path: Sequence[CallCounts]) -> Target | Missing:
    ends = list(accumulate(sum(one) for one in path))
    place = _holding(number, ends)
    if place is None:
        return Missing(_near("T", number, ends[-1] if ends else 0))
    before = ends[place] - sum(path[place])
    return Target(place, number - before, before)


def _step(number: int, path: Sequence[CallCounts]) -> Target | Missing:
    place = _holding(number, list(accumulate(len(one) for one in path)))
    if place is None:
        return Missing(_near("M", len(path), len(path)))
    return Target(place, 0, above(path)[place])


def _holding(number: int, ends: Sequence[int]) -> int | None:
    """The first place up to which `number` are counted; None if there are fewer."""
    return next((place for place, end in enumerate(ends) if 1 <= number <= end), None)


def _near(kind: str, number: int, last: int) -> tuple[str, ...]:
    middle = min(max(number, 1), last)
    numbers = range(max(middle - _NEAR, 1), min(middle + _NEAR, last) + 1)
    return tuple(f"{kind}{one}" for one in numbers)
