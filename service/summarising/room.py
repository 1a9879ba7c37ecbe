"""Chooses what of a memory stands in a summary of so many tokens. Pure.

The state comes first, then rules, quotations and tool calls, and what was said since the state was
written; earlier talk is in the state. Without a state, the best of the talk fills the rest.

A state changes with each reply, and what code keeps hardly does. So that stands in front of the
state, where it begins all requests alike; newer lines stand behind it until they are more than
those in front, or until one in front has to go.
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
    """Chooses the parts of a memory for `room` tokens."""
    rule_lines = map(write_pin, memory.rules)
    fitted = state.fit(memory.state, room - HEAD_TOKENS, rule_lines)
    shown_state = tuple(chain.from_iterable(map(state.render, fitted.kept)))
    left = room - count_with_head(shown_state)
    # Rules do not age: as many as can stand. Of quotations the newest.
    rules = _fit_pins(sorted(memory.rules, key=lambda pin: len(pin.text)), left)
    left -= count_with_head(rules.values())
    calls = ledger.choose(memory.ledger, int(left * _LEDGER) - HEAD_TOKENS, used=True)
    left -= count_with_head(calls.lines)
    utterances = _list_untold_talk(memory)
    # Beside a state, newer talk comes before quotations, because it may have corrected them.
    newer_talk = talk.choose(utterances, int(left * _SINCE)) if memory.state else []
    newer_tokens = count_with_head(talk.write_lines(newer_talk))
    quotations = _fit_pins(reversed(memory.quotations), left - newer_tokens)
    left -= count_with_head(quotations.values())

    used_calls: _NamedLines = {}
    if memory.state:
        used_calls = {
            f"T{entry.first}": _write_call_line(ledger.write_line(entry)) for entry in calls.entries
        }
    kept = {**rules, **quotations, **used_calls}
    front = _choose_front(memory, kept)
    newer = kept.keys() - front
    left -= _MOST_HEADS * HEAD_TOKENS if newer else 0
    spoken, other_calls = _fill_rest(memory, utterances, calls, left)
    pins = len(memory.rules) + len(memory.quotations)
    return Parts(
        front=_pick_lines(rules, quotations, used_calls, front),
        state=shown_state,
        newer=_pick_lines(rules, quotations, used_calls, newer),
        talk=spoken,
        calls=other_calls,
        # An operator's state beside the talk of code's summary is not older than that talk.
        is_since=bool(memory.state and memory.told),
        left_out=pins - len(rules) - len(quotations),
        given_up=tuple(fitted.given_up),
        front_names=tuple(sorted(front)),
    )


def _fill_rest(
    memory: Memory, utterances: Sequence[Utterance], calls: ledger.LedgerLines, left: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fills the rest of the room with talk; without a state, tool calls take what that leaves."""
    spoken = talk.write_lines(talk.choose(utterances, left - HEAD_TOKENS))
    others: Sequence[str] = [calls.others] if calls.others else []
    if not memory.state:
        rest = left + count_with_head(calls.lines) - count_with_head(spoken)
        others = ledger.choose(memory.ledger, rest - HEAD_TOKENS).lines
    return spoken, tuple(map(_write_call_line, others))


def _choose_front(memory: Memory, shown: _NamedLines) -> set[str]:
    """Chooses what stands in front of the state: what did so before, or else all of it.

    All is put there again when a line in front is shown no more, and when the newer lines are more
    than those in front.
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
    """Picks the lines that have one of these names."""

    def pick(lines: _NamedLines) -> tuple[str, ...]:
        return tuple(line for name, line in lines.items() if name in names)

    return KeptLines(pick(rules), pick(quotations), pick(calls))


def _write_call_line(line: str) -> str:
    """Makes a line of the ledger harmless."""
    return make_harmless(quote_marks(line))


def trim_memory(memory: Memory, room: int) -> Memory:
    """Drops what no later summary has room for; `room` is the tokens of one."""
    kept = _list_untold_talk(memory)
    if sum(len(one.text) for one in kept) > _STORED * room * _CHARACTERS:
        kept = talk.choose(kept, _STORED * room)
    return replace(memory, pins=_limit_pins(memory.pins), talk=tuple(kept))


def _limit_pins(pins: Sequence[Pin]) -> tuple[Pin, ...]:
    """Drops the oldest quotations first, so that no number of them pushes a rule out."""
    surplus = max(len(pins) - _MOST_PINS, 0)
    others = [pin.number for pin in pins if pin.kind is not Kind.RULE]
    gone = set(others[:surplus])
    return tuple(pin for pin in pins if pin.number not in gone)[-_MOST_PINS:]


def _fit_pins(ranked: Iterable[Pin], room: int) -> dict[str, str]:
    """Chooses the first of these pins that `room` tokens show, ordered by number."""
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
    """Counts the tokens of a part with its head; 0 without a line."""
    return count_tokens(lines) + HEAD_TOKENS if lines else 0


def _list_untold_talk(memory: Memory) -> list[Utterance]:
    """Lists the talk that is no pin, and that the writer of the state has not read."""
    pinned = {pin.utterance for pin in (*memory.rules, *memory.quotations)}
    told = memory.told if memory.state else 0
    return [one for one in memory.talk if one.step > told and one.number not in pinned]
