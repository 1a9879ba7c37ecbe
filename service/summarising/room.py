"""What of a memory stands in a summary of so many tokens. Pure.

Room is a maximum, not a goal. A state comes first, and whole; then the rules, the quotations and
the tool calls, and what was said since the state was written. What was said before is in the state,
so no talk repeats it. Without a state, the talk that is worth most fills what the rest leaves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from service.summarising import ledger, state, talk
from service.summarising.markup import harmless, unmarked
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.message import HEAD_TOKENS, Parts, pin_line
from service.summarising.talk import size
from service.summarising.utterances import Utterance

_LEDGER = 0.35  # of what state and rules leave, for calls on whose results others went on
_SINCE = 0.5  # of what state and rules leave, for what was said since, before quotations have it
_STORED = 3  # times the room: so much talk is kept for later summaries
_CHARACTERS = 4  # of a token; a talk of so few is kept without a choice
_MOST_PINS = 400


def fitted(memory: Memory, room: int) -> Parts:
    """What `room` tokens have room for."""
    told = state.fit(memory.state, room - HEAD_TOKENS, map(pin_line, memory.rules))
    lines = tuple(chain.from_iterable(map(state.render, told.kept)))
    left = room - price(lines)
    # Rules do not age: as many as can stand. Of quotations the newest.
    rules = _fit_pins(sorted(memory.rules, key=lambda pin: len(pin.text)), left)
    left -= price(rules)

    calls = _calls(memory, int(left * _LEDGER) - HEAD_TOKENS, used=True)
    said = _untold_talk(memory)
    # Beside a state, what was said since goes before quotations, which it may have corrected.
    since = talk.lines(talk.choose(said, int(left * _SINCE))) if memory.state else ()
    quotations = _fit_pins(reversed(memory.quotations), left - price(calls) - price(since))
    left -= price(quotations)
    spoken = talk.lines(talk.choose(said, left - price(calls) - HEAD_TOKENS))
    if not memory.state:
        # What the talk did not need is the ledger's.
        calls = _calls(memory, left - price(spoken) - HEAD_TOKENS)
    pins = len(memory.rules) + len(memory.quotations)
    return Parts(
        rules=rules,
        state=lines,
        quotations=quotations,
        talk=spoken,
        ledger=calls,
        # What an operator writes beside the talk of code's summary is not older than that.
        is_since=bool(memory.state and memory.told),
        left_out=pins - len(rules) - len(quotations),
        given_up=tuple(told.given_up),
    )


def stored(memory: Memory, room: int) -> Memory:
    """The memory without what no later summary will have room for; `room` is that of one."""
    kept = _untold_talk(memory)
    if sum(len(one.text) for one in kept) > _STORED * room * _CHARACTERS:
        kept = talk.choose(kept, _STORED * room)
    return replace(memory, pins=_few_enough(memory.pins), talk=tuple(kept))


def _few_enough(pins: Sequence[Pin]) -> tuple[Pin, ...]:
    """Of too many the oldest quotations go first: no number of them pushes a rule out."""
    surplus = max(len(pins) - _MOST_PINS, 0)
    others = [pin.number for pin in pins if pin.kind is not Kind.RULE]
    gone = set(others[:surplus])
    return tuple(pin for pin in pins if pin.number not in gone)[-_MOST_PINS:]


def _fit_pins(ranked: Iterable[Pin], room: int) -> tuple[str, ...]:
    """The first of these pins that `room` tokens show, in the order in which they were said."""
    shown: dict[int, str] = {}
    left = room - HEAD_TOKENS
    for pin in ranked:
        line = pin_line(pin)
        cost = size([line])
        # A long one that finds no room does not keep shorter ones behind it out.
        if cost <= left:
            left -= cost
            shown[pin.number] = line
    return tuple(line for _, line in sorted(shown.items()))


def price(lines: Sequence[str]) -> int:
    """The tokens that a part takes with its head; none without a line."""
    return size(lines) + HEAD_TOKENS if lines else 0


def _calls(memory: Memory, room: int, *, used: bool = False) -> tuple[str, ...]:
    shown = ledger.lines(memory.ledger, room, used=used)
    return tuple(harmless(unmarked(line)) for line in shown)


def _untold_talk(memory: Memory) -> list[Utterance]:
    """The talk that stands neither as a pin nor in the state, whose model has read it."""
    pinned = {pin.utterance for pin in (*memory.rules, *memory.quotations)}
    told = memory.told if memory.state else 0
    return [one for one in memory.talk if one.step > told and one.number not in pinned]
