"""What of a memory stands in a summary of so many tokens. Pure.

Room is a maximum, not a goal. A state comes first, and whole; then the rules, the quotations and
the tool calls, and what was said since the state was written. What was said before is in the state,
so no talk repeats it. Without a state, the talk that is worth most fills what the rest leaves.

A state changes with each reply of a summariser, and what code keeps hardly does. So that stands in
front of the state, where it begins all requests alike. What is newer stands behind it, until that
is more than what is in front, or until something in front has to go.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain

from service.summarising import ledger, state, talk
from service.summarising.markup import make_harmless, quote_marks
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.message import HEAD_TOKENS, KeptLines, Parts, write_pin
from service.summarising.talk import count_tokens
from service.summarising.utterances import Utterance

_LEDGER = 0.35  # of what state and rules leave, for calls on whose results others went on
_SINCE = 0.5  # of what state and rules leave, for what was said since, before quotations have it
_STORED = 2  # times the room: so much talk is kept for later summaries
_CHARACTERS = 4  # of a token; a talk of so few is kept without a choice
_MOST_PINS = 400
_MOST_HEADS = 3  # that newer lines may have above them

_NamedLines = Mapping[str, str]
"""Lines by their names, `P12` and `T3`, in the order in which they were said."""


def fit_memory(memory: Memory, room: int) -> Parts:
    """What `room` tokens have room for."""
    told = state.fit(memory.state, room - HEAD_TOKENS, map(write_pin, memory.rules))
    lines = tuple(chain.from_iterable(map(state.render, told.kept)))
    left = room - count_with_head(lines)
    # Rules do not age: as many as can stand. Of quotations the newest.
    rules = _fit_pins(sorted(memory.rules, key=lambda pin: len(pin.text)), left)
    left -= count_with_head(rules.values())
    calls = ledger.choose(memory.ledger, int(left * _LEDGER) - HEAD_TOKENS, used=True)
    left -= count_with_head(calls.lines)
    said = _list_untold_talk(memory)
    # Beside a state, what was said since goes before quotations, which it may have corrected.
    since = talk.write_lines(talk.choose(said, int(left * _SINCE))) if memory.state else ()
    quotations = _fit_pins(reversed(memory.quotations), left - count_with_head(since))
    left -= count_with_head(quotations.values())

    used: _NamedLines = {}
    if memory.state:
        used = {
            f"T{entry.first}": _write_call_line(ledger.write_line(entry)) for entry in calls.entries
        }
    front = _choose_front(memory, {**rules, **quotations, **used})
    newer = (rules.keys() | quotations.keys() | used.keys()) - front
    left -= _MOST_HEADS * HEAD_TOKENS if newer else 0
    spoken = talk.write_lines(talk.choose(said, left - HEAD_TOKENS))
    others = [calls.others]
    if not memory.state:
        # What the talk did not need is the ledger's.
        room_for_calls = left + count_with_head(calls.lines) - count_with_head(spoken) - HEAD_TOKENS
        others = [*ledger.choose(memory.ledger, room_for_calls).lines]
    pins = len(memory.rules) + len(memory.quotations)
    return Parts(
        front=_pick_lines(rules, quotations, used, front),
        state=lines,
        newer=_pick_lines(rules, quotations, used, newer),
        talk=spoken,
        calls=tuple(map(_write_call_line, filter(None, others))),
        # What an operator writes beside the talk of code's summary is not older than that.
        is_since=bool(memory.state and memory.told),
        left_out=pins - len(rules) - len(quotations),
        given_up=tuple(told.given_up),
        front_names=tuple(sorted(front)),
    )


def _choose_front(memory: Memory, shown: _NamedLines) -> set[str]:
    """The names of what stands in front of the state: what did so before, or all of it.

    All of it is put there anew when something in front is shown no more, and when what is newer is
    more than what is in front.
    """
    front = {name for name in memory.front if name in shown}
    newer = [line for name, line in shown.items() if name not in front]
    is_whole = len(front) == len(memory.front)
    if is_whole and count_tokens(newer) <= count_tokens(shown[name] for name in front):
        return front
    return set(shown)


def _pick_lines(
    rules: _NamedLines, quotations: _NamedLines, calls: _NamedLines, names: Set[str]
) -> KeptLines:
    """The lines that have one of these names."""

    def pick(lines: _NamedLines) -> tuple[str, ...]:
        return tuple(line for name, line in lines.items() if name in names)

    return KeptLines(pick(rules), pick(quotations), pick(calls))


def _write_call_line(line: str) -> str:
    """A line of the ledger as it is shown."""
    return make_harmless(quote_marks(line))


def trim_memory(memory: Memory, room: int) -> Memory:
    """The memory without what no later summary will have room for; `room` is that of one."""
    kept = _list_untold_talk(memory)
    if sum(len(one.text) for one in kept) > _STORED * room * _CHARACTERS:
        kept = talk.choose(kept, _STORED * room)
    return replace(memory, pins=_limit_pins(memory.pins), talk=tuple(kept))


def _limit_pins(pins: Sequence[Pin]) -> tuple[Pin, ...]:
    """Of too many the oldest quotations go first: no number of them pushes a rule out."""
    surplus = max(len(pins) - _MOST_PINS, 0)
    others = [pin.number for pin in pins if pin.kind is not Kind.RULE]
    gone = set(others[:surplus])
    return tuple(pin for pin in pins if pin.number not in gone)[-_MOST_PINS:]


def _fit_pins(ranked: Iterable[Pin], room: int) -> dict[str, str]:
    """The first of these pins that `room` tokens show, in the order in which they were said."""
    shown: dict[int, str] = {}
    left = room - HEAD_TOKENS
    for pin in ranked:
        line = write_pin(pin)
        cost = count_tokens([line])
        # A long one that finds no room does not keep shorter ones behind it out.
        if cost <= left:
            left -= cost
            shown[pin.number] = line
    return {f"P{number}": line for number, line in sorted(shown.items())}


def count_with_head(lines: Collection[str]) -> int:
    """The tokens that a part takes with its head; none without a line."""
    return count_tokens(lines) + HEAD_TOKENS if lines else 0


def _list_untold_talk(memory: Memory) -> list[Utterance]:
    """The talk that stands neither as a pin nor in the state, whose model has read it."""
    pinned = {pin.utterance for pin in (*memory.rules, *memory.quotations)}
    told = memory.told if memory.state else 0
    return [one for one in memory.talk if one.step > told and one.number not in pinned]
