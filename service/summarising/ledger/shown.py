"""What is shown of the ledger within some room.

Used values are left out last, and the oldest entries shrink first.

In: entries and a number of tokens. Out: lines of a summary, each with its list mark.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial, reduce

from service.summarising.ledger import entries as making
from service.summarising.ledger import wording
from service.summarising.ledger.entries import Entry
from service.summarising.ledger.results import FIGURES, SAMPLE, SAMPLES, Part
from service.summarising.ledger.used import Field
from service.text import prose, tokens
from service.transcript.items import Call

_FIELDS = 480  # characters of the plain fields of an object, and when room is short
_FEWER_FIELDS = 200
_FEWER_ARGUMENTS = 80
_USED = 700  # characters of the used values of an entry, and when room is short
_FEWER_USED = 200
_LINE = 100  # tokens of a call in a prompt
_LEAST = 8  # tokens that every line takes
_NAMED = 3  # calls that say nothing are named by so many arguments
_ARGUMENT = 40


def line(entry: Entry, fields: int = _FIELDS, used: int = _USED) -> str:
    """An entry on one line."""
    told = _told(entry, fields, used)
    called = f"{entry.tool}({entry.arguments})"
    if entry.count == 1:
        return f"- T{entry.first} {called} → {told}"
    # Calls that were merged have different arguments, so that often none are left to show.
    if not entry.arguments:
        called = entry.tool
    return f"- T{entry.first}–T{entry.last} {called} × {entry.count} → {told}"


def called(call: Call) -> str:
    """A call without its result: its name and its arguments."""
    entry = making.of(1, call)
    return f"{entry.tool}({entry.arguments})"


def line_of(call: Call) -> str:
    """A call on one line of some 100 tokens, for who does not read its whole result."""
    entry = making.of(1, call)
    result = call.result.text
    # Short prose says more itself than what is told about it.
    if prose.is_prose(result) and len(result) <= SAMPLE:
        entry = replace(entry, outcome=wording.quoted(result, SAMPLE))
    called = f"{entry.tool}({entry.arguments})"
    said = f"{called} → {entry.outcome}"
    room = _LINE - tokens.count(said)
    if room < 0:
        begin = wording.shorten(called, 3 * _FEWER_ARGUMENTS)
        said = f"{begin} → {_closed(entry.outcome, 2 * _LINE)}"
    fields = f"fields: {_fields(entry, _FEWER_FIELDS)}" if entry.whole else ""
    for part in filter(None, [fields, *map(str, entry.details)]):
        room -= tokens.count(part) + 1
        if room < 0:
            break
        said += f" | {part}"
    if len(result) <= len(said):
        return said
    return f"{said} [{len(result)} characters]"


def lines(entries: Sequence[Entry], limit: int) -> tuple[str, ...]:
    """The ledger within `limit` tokens.

    Comments and samples go first, then plain fields and figures, then arguments; then the oldest
    entries merge. Values that were used afterwards stay until nothing else is left.
    """
    quiet, others = _parted(entries)
    counted = (_counted(quiet),) if quiet else ()
    if others and _cost(counted) * 4 > limit:  # the others say more, and need the room
        counted = (_only_counted(quiet),)
    shown = _within(others, limit - _cost(counted))
    every = (*shown, *counted)
    if _cost(every) <= limit:
        return every
    return shown if _cost(shown) <= limit else ()


def _parted(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The calls that share a line because they said nothing, and all others."""
    quiet = [entry for entry in entries if _says_nothing(entry)]
    if len(quiet) < 2:
        return [], list(entries)
    return quiet, [entry for entry in entries if not _says_nothing(entry)]


def _within(entries: list[Entry], room: int) -> tuple[str, ...]:
    kept = making.merged_first(entries, max(len(entries) - room // _LEAST, 0))
    said = [line(entry) for entry in kept]
    total = _cost(said)
    for lesser, fields, used in _LESSER:
        for place, entry in enumerate(kept):
            if total <= room:
                return tuple(said)
            kept[place] = lesser(entry)
            total -= _cost(said[place : place + 1])
            said[place] = line(kept[place], fields, used)
            total += _cost(said[place : place + 1])
    return tuple(said) if total <= room else _merged(kept, room)


def _merged(entries: list[Entry], room: int) -> tuple[str, ...]:
    """The fewest of the oldest merge, by tool; if that is not enough, across tools."""

    def fits(taken: int) -> bool:
        kept = making.merged_first(entries, taken)
        return _cost(line(entry, 0, _FEWER_USED) for entry in kept) <= room

    taken = bisect_left(range(len(entries)), True, key=fits)
    kept = making.merged_first(entries, taken)
    while kept:
        for used in (_FEWER_USED, _FEWER_USED // 4, 0):
            said = tuple(line(entry if used else _bare(entry), 0, used) for entry in kept)
            if _cost(said) <= room:
                return said
        if len(kept) == 1:
            break
        half = (len(kept) + 1) // 2
        kept = [reduce(making.joined, kept[: half + 1]), *kept[half + 1 :]]
    return ()


def _told(entry: Entry, fields: int, used: int) -> str:
    failed_again = entry.failed and entry.count > 1
    parts = [f"failed, last {entry.outcome}" if failed_again else entry.outcome]
    later = _used(entry, used) if used else ""
    if later:
        parts.append(f"used later: {later}")
    plain = _fields(entry, fields) if entry.whole and fields else ""
    if plain:
        parts.append(f"fields: {plain}")
    parts += map(str, entry.details)
    if entry.markers:
        parts.append(f"stored as {', '.join(entry.markers)}")
    if entry.comment:
        parts.append(f"then: {entry.comment}")
    return " | ".join(parts)


def _fields(entry: Entry, room: int) -> str:
    """The plain fields of an object, and what lies deeper by its path."""
    kept: dict[str, list[Field]] = {}
    for one in entry.candidates:
        if not one.line:
            kept.setdefault(one.name, []).append(one)
    return wording.listed((_named(found) for found in kept.values()), room + 2, len(kept))


def _used(entry: Entry, room: int) -> str:
    """Values with the names of their fields, those of one row together.

    A single value that the outcome shows is not repeated.
    """
    new = [one for one in entry.used if one.value not in entry.outcome or one.owner]
    kept = _best_used(new, room)
    rows: dict[str, list[Field]] = {}
    for one in kept:
        rows.setdefault(one.owner, []).append(one)
    said = "; ".join(_row(owner, found) for owner, found in rows.items())
    return said if len(kept) == len(new) else f"{said}; …"


def _best_used(fields: Sequence[Field], room: int) -> list[Field]:
    """Those that have room, one at least, in their order; of those used as often, the last."""
    kept: list[int] = []
    for place in sorted(range(len(fields)), key=lambda place: (-fields[place].uses, -place)):
        one = fields[place]
        room -= len(one.name) + len(one.value) + 4  # the signs between and around them
        if kept and room < 0:
            break
        kept.append(place)
    return [fields[place] for place in sorted(kept)]


def _row(owner: str, found: Sequence[Field]) -> str:
    others = [one for one in found if one.value != owner] or list(found)
    if owner and all(owner in one.name for one in others):  # the path tells it
        others = [replace(one, name=one.name[one.name.index(owner) :]) for one in others]
        return _named(others)
    said = _named(others)
    return f"{wording.cell(owner)}: {said}" if owner and others[0].value != owner else said


def _named(found: Iterable[Field]) -> str:
    """Values by the names of their fields; several of one name stand together."""
    values: dict[str, list[str]] = {}
    for one in found:
        name = wording.name(one.name, len(one.name))
        values.setdefault(f"{name}:" if one.line else f"{name} =", []).append(_value(one))
    return ", ".join(f"{name} {', '.join(said)}".lstrip(": =") for name, said in values.items())


def _value(one: Field) -> str:
    """A line of a text in quotation marks; prose stands there only because it was used."""
    room = len(one.value)
    whole = one.line or (one.uses and prose.is_prose(one.value))
    return wording.quoted(one.value, room) if whole else wording.cell(one.value, room)


def _says_nothing(entry: Entry) -> bool:
    return entry.quiet and entry.count == 1 and not entry.used and not entry.markers


def _counted(quiet: Sequence[Entry]) -> str:
    """One line for the calls that said nothing, by tool and outcome, with what tells them apart."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in quiet:
        groups.setdefault((entry.tool, entry.outcome), []).append(entry)
    said = (_group(tool, outcome, group) for (tool, outcome), group in groups.items())
    return f"- {len(quiet)} calls that returned nothing to tell: {'; '.join(said)}"


def _group(tool: str, outcome: str, group: Sequence[Entry]) -> str:
    arguments = list(dict.fromkeys(wording.shorten(entry.arguments, _ARGUMENT) for entry in group))
    named = [one for one in arguments if one][-_NAMED:]
    apart = f" ({'; '.join(named)})" if named else ""
    several = f" × {len(group)}" if len(group) > 1 else ""
    return f"{tool}{several}{apart} → {outcome}"


def _only_counted(quiet: Sequence[Entry]) -> str:
    counts = Counter(entry.tool for entry in quiet)
    said = wording.listed((f"{tool} × {count}" for tool, count in counts.items()), 2 * _ARGUMENT)
    return f"- {len(quiet)} calls that returned nothing to tell: {said}"


@lru_cache(maxsize=4096)  # a line is weighed in each round of shrinking
def _tokens(said: str) -> int:
    return tokens.count(said) + 1


def _cost(said: Iterable[str]) -> int:
    return sum(map(_tokens, said))


# ---- less


def _lesser(entry: Entry, parts: Collection[Part]) -> Entry:
    """An entry without its comment, and with these parts of its details."""
    kept = tuple(one for one in entry.details if one.part in parts)
    markers = entry.markers if Part.NOTE in parts else ()
    return replace(entry, details=kept, comment="", markers=markers)


_bare = partial(_lesser, parts=(Part.ALSO,))


def _called(entry: Entry) -> Entry:
    """With fewer arguments."""
    fewer = wording.shorten(entry.arguments, _FEWER_ARGUMENTS)
    return replace(entry, arguments=entry.arguments if fewer.startswith("[") else fewer)


def _brief(entry: Entry) -> Entry:
    """With what tells it from others."""
    arguments = wording.shorten(entry.arguments, _ARGUMENT)
    if arguments.startswith("[") and len(entry.arguments) <= 2 * _ARGUMENT:
        arguments = entry.arguments  # one path, which cannot be cut
    return replace(
        entry,
        tool=wording.shorten(entry.tool, _ARGUMENT),
        arguments=arguments,
        outcome=_closed(entry.outcome, 3 * _ARGUMENT),
        details=(),
    )


def _closed(said: str, room: int) -> str:
    """An outcome in fewer words; a quotation ends with its mark."""
    shorter = wording.shorten(said, room)
    return shorter + '"' if shorter != said and said.startswith('"') else shorter


_Less = Callable[[Entry], Entry]
_LESSER: tuple[tuple[_Less, int, int], ...] = (
    (partial(_lesser, parts=frozenset(Part)), _FIELDS, _USED),
    (partial(_lesser, parts=frozenset(Part) - {Part.LAST}), _FIELDS, _USED),
    (partial(_lesser, parts=frozenset(Part) - set(SAMPLES)), _FEWER_FIELDS, _USED),
    (partial(_lesser, parts=FIGURES), _FEWER_FIELDS, _USED),
    (_bare, 0, _USED),
    (_called, 0, _USED),
    (_called, 0, _FEWER_USED),
    (_brief, 0, _FEWER_USED),
)
"""Which parts an entry loses, step by step, with the characters of its fields and used values."""
