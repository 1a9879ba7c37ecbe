"""The entries of the ledger: each covered tool call, what came back, and what of it was used.

In: steps. Out: entries in order, each with a reference (`T12`) that stays the same in all later
checkpoints. What is said of a result comes from `results`, which values of it were used afterwards
from `used`. An entry is stored typed, and nothing of it is ever parsed. What is stored is bounded;
what is shown of it within some room is chosen by `shown`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

from service.summarising.ledger import results, used, wording
from service.summarising.ledger.results import Detail, Part
from service.summarising.ledger.used import Field, Uses
from service.transcript import Step
from service.transcript.items import Call

_ARGUMENTS = 240  # characters of the arguments of a call, and of a single one of several
_ARGUMENT = 120
_COMMENT = 200
_OWNER = 80
_MESSAGES = 3  # different messages of failures in a row
_SEVERAL = "several tools"
_MARKERS = 8
_WORDS = 6  # an outcome of so few words, without a value, tells nothing but that it went well
# What is stored.
_ENTRIES = 160
_USED = 24  # fields of an entry
_CANDIDATES = 40
_CANDIDATE_CHARACTERS = 2400
_ALL_CANDIDATES = 12_000  # characters of all entries
_ALL_DETAILS = 60_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One covered call, or several merged ones.

    Attributes:
        first: its number; of merged ones the lowest.
        last: the highest number.
        tool: its name.
        arguments: on one line; of merged failures those of the last.
        outcome: in a few words what came back.
        failed: whether all of its calls failed.
        comment: what the assistant said after it.
        count: how many calls it stands for.
        errors: how many of them failed.
        details: more of the result, the most valuable first.
        used: values of the result that were used afterwards.
        candidates: values that may be used later; plain ones first.
        whole: whether the result is an object, which is shown by its candidates.
        quiet: whether the outcome says no more than that it went well.
        markers: ids under which a pipe stored artifacts of the step.
    """

    first: int
    last: int
    tool: str
    arguments: str
    outcome: str
    failed: bool = False
    comment: str = ""
    count: int = 1
    errors: int = 0
    details: tuple[Detail, ...] = ()
    used: tuple[Field, ...] = ()
    candidates: tuple[Field, ...] = ()
    whole: bool = False
    quiet: bool = False
    markers: tuple[str, ...] = ()


def extend(entries: Sequence[Entry], steps: Iterable[Step]) -> tuple[Entry, ...]:
    """`entries` and those of the newly covered steps, with what the steps use of all results.

    Args:
        entries: the ledger of the checkpoint that this one grows from.
        steps: the newly covered steps, in order.
    """
    told = list(entries)
    numbers = count(_last_number(told) + 1)
    uses = Uses()
    for place, entry in enumerate(told):
        uses.add(place, (*entry.used, *entry.candidates))
    waits = bool(told) and told[-1].count == 1  # a turn may go on where the last checkpoint ended
    for step in steps:
        if waits:
            _comment(step, told)
        _read(step, uses)
        for call in step.calls:
            entry, content = _entry(next(numbers), call)
            uses.add(len(told), used.fields(content))
            told.append(entry)
        if step.calls:
            told[-1] = replace(told[-1], markers=_markers(step))
        # Only the first words after a call comment on it.
        waits = bool(step.calls) or (waits and _is_silent(step))
    found = [_with(entry, uses.of(place)) for place, entry in enumerate(told)]
    return tuple(_bounded(_merge_failures(found)))


def unread_calls(entries: Sequence[Entry], count: int) -> tuple[Entry, ...]:
    """`entries`, and one for `count` calls that nobody could read, so that numbers go on right."""
    if not count:
        return tuple(entries)
    first = _last_number(entries) + 1
    unread = Entry(
        first, first + count - 1, _SEVERAL, "", "too hard to read", count=count, quiet=False
    )
    return (*entries, unread)


def _last_number(entries: Sequence[Entry]) -> int:
    """The highest number; after a merge it need not be that of the last entry."""
    return max((entry.last for entry in entries), default=0)


def _is_silent(step: Step) -> bool:
    return step.role == "assistant" and not step.text


def _comment(step: Step, told: list[Entry]) -> None:
    """What the assistant says after a call comments on it."""
    if step.role == "assistant" and step.text and not told[-1].comment:
        told[-1] = replace(told[-1], comment=wording.line(step.text, _COMMENT))


def _read(step: Step, uses: Uses) -> None:
    """Marks what a step uses, before its own results are known: it cannot have used those."""
    if step.role == "assistant":
        uses.read(step.text)
    else:
        uses.hear(step.text)
    for call in step.calls:
        uses.read(_plain(call.call.arguments), 1)  # its own line shows them


def of(number: int, call: Call) -> Entry:
    """A call by itself."""
    entry, content = _entry(number, call)
    plain = islice(used.fields(content), _CANDIDATES) if entry.whole else ()
    return _with(entry, list(plain))


def merged(entries: Sequence[Entry]) -> list[Entry]:
    """One entry for each tool."""
    by_tool: dict[str, Entry] = {}
    for entry in entries:
        old = by_tool.get(entry.tool)
        by_tool[entry.tool] = joined(old, entry) if old else entry
    return sorted(by_tool.values(), key=lambda entry: entry.first)


def merged_first(entries: Sequence[Entry], count: int) -> list[Entry]:
    """The first `count` of them in one for each tool, and the others as they are."""
    return [*merged(entries[:count]), *entries[count:]]


def joined(old: Entry, new: Entry) -> Entry:
    """Both in one, which still has the values that were used."""
    calls, errors = old.count + new.count, _errors(old) + _errors(new)
    both = Entry(
        min(old.first, new.first),
        max(old.last, new.last),
        old.tool if old.tool == new.tool else _SEVERAL,
        "",
        "",
        failed=errors == calls,
        count=calls,
        errors=errors,
        details=tuple(_failures(old, new)),
        used=_most_used((*_owned(old), *_owned(new))),
        markers=(*old.markers, *new.markers)[-_MARKERS:],
    )
    return replace(both, outcome=_outcome(both))


def _failures(*entries: Entry, but: str = "") -> Iterator[Detail]:
    """The last different messages of calls that failed, without one that is shown anyway."""
    said: list[str] = []
    for entry in entries:
        said += [one.text for one in entry.details if one.part is Part.ALSO]
        said += [entry.outcome] if entry.failed and entry.outcome != _outcome(entry) else []
    others = [text for text in dict.fromkeys(said) if text != but]
    return (Detail(Part.ALSO, text) for text in others[1 - _MESSAGES :])


def _outcome(entry: Entry) -> str:
    """What is said of several calls."""
    failures = f", {entry.errors} errors" if entry.errors else ""
    return f"{entry.count - entry.errors} results{failures}"


def _owned(entry: Entry) -> Iterator[Field]:
    """Its used values, which will stand without its arguments."""
    owner = wording.shorten(entry.arguments.replace('"', ""), _OWNER)
    return (one if one.owner else replace(one, owner=owner) for one in entry.used)


def _entry(number: int, call: Call) -> tuple[Entry, Any]:
    found, images = results.read(call.result.text), len(call.result.images)
    pictures = (Detail(Part.NOTE, f"{images} image" + "s" * (images > 1)),) if images else ()
    entry = Entry(
        number,
        number,
        wording.line(call.call.name, wording.VALUE) or "tool",
        _arguments(call.call.arguments),
        found.said,
        found.failed,
        errors=int(found.failed),
        details=(*pictures, *found.details),
        whole=found.whole,
        quiet=not (found.failed or images or found.details) and _is_quiet(found.said),
    )
    return entry, found.content


def _is_quiet(outcome: str) -> bool:
    """Few words without a value."""
    words = used.atoms(outcome)
    value = any(map(str.isdigit, outcome)) or any(map(used.strong, outcome.strip('"').split()))
    return len(words) <= _WORDS and not value


def _arguments(raw: str) -> str:
    value = wording.parsed(raw)
    if not isinstance(value, dict):
        return wording.line(raw, _ARGUMENTS)
    room = _ARGUMENTS if len(value) == 1 else _ARGUMENT
    named = (f"{_key(key, room)}={wording.brief(one, room)}" for key, one in value.items())
    return wording.listed(named, _ARGUMENTS)


def _key(name: str, room: int) -> str:
    """A name as it is; in marks when it has blanks, because it may be a sentence."""
    told = wording.name(name, room)
    return f'"{told}"' if " " in told and not told.startswith("[") else told


def _plain(arguments: str) -> str:
    """Names and values of arguments, without the escapes of JSON."""
    value = wording.parsed(arguments)
    if not isinstance(value, dict):
        return arguments
    return "\n".join(f"{one.name} {one.value}" for one in used.fields(value))


def _markers(step: Step) -> tuple[str, ...]:
    return tuple(wording.line(one, wording.VALUE) for one in step.markers[-_MARKERS:])


def _with(entry: Entry, found: Sequence[Field]) -> Entry:
    """The entry with the fields of its result, those that were used and those that may be."""
    if not found:
        return entry
    taken = _most_used([one for one in found if one.uses])
    kept = set(taken)
    others = (one for one in found if one not in kept and _may_be_used(one, entry))
    candidates = islice(others, _CANDIDATES if entry.count == 1 else 0)
    return replace(entry, used=taken, candidates=tuple(_fitting(candidates)))


def _may_be_used(one: Field, entry: Entry) -> bool:
    """Whether a value is worth storing; an object is shown by all of its values."""
    return not one.uses and (entry.whole or used.may_be_found(one))


def _fitting(candidates: Iterable[Field]) -> Iterator[Field]:
    room = _CANDIDATE_CHARACTERS
    for one in candidates:
        room -= _size(one)
        if room <= 0:
            return
        yield one


def _most_used(found: Sequence[Field]) -> tuple[Field, ...]:
    """As many as are stored, in their order; of those that were used as often, the last."""
    places = sorted(range(len(found)), key=lambda place: (-found[place].uses, -place))[:_USED]
    return tuple(dict.fromkeys(found[place] for place in sorted(places)))


def _size(one: Field) -> int:
    return len(one.name) + len(one.value) + len(one.owner)


def _bounded(entries: Sequence[Entry]) -> Iterator[Entry]:
    """What is stored of all entries: the oldest merge, and lose what was not used, first."""
    candidates, details = _ALL_CANDIDATES, _ALL_DETAILS
    kept: list[Entry] = []
    # From the newest on, so that the oldest find no room left.
    for entry in reversed(_few_enough(entries)):
        candidates -= sum(map(_size, entry.candidates))
        details -= sum(len(one.text) for one in entry.details) + len(entry.comment)
        if candidates < 0:
            entry = replace(entry, candidates=())
        if details < 0:
            entry = replace(entry, details=(), comment="")
        kept.append(entry)
    return reversed(kept)


def _few_enough(entries: Sequence[Entry]) -> Sequence[Entry]:
    surplus = len(entries) - _ENTRIES
    if surplus > 0:
        # Some more at once, or each further call would merge again.
        entries = merged_first(entries, surplus + _ENTRIES // 4)
    # By tool that may not be enough; then across tools.
    while len(entries) > _ENTRIES:
        entries = [joined(entries[0], entries[1]), *entries[2:]]
    return entries


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
    return replace(
        new,
        first=old.first,
        count=old.count + new.count,
        errors=_errors(old) + _errors(new),
        comment=new.comment or old.comment,
        details=tuple(_failures(old, new, but=new.outcome)),
        used=_most_used((*old.used, *new.used)),
        markers=(*old.markers, *new.markers)[-_MARKERS:],
    )


def _errors(entry: Entry) -> int:
    return entry.errors or (entry.count if entry.failed else 0)
