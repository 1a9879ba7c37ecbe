"""What of a memory stands in a summary of so many tokens. Pure.

Room is a maximum, not a goal. First come rules, whatever their age; then the state; then other
rules, quotations and tool calls. Talk that nobody chose fills what is left, and where there is a
state only if it is worth its tokens. What finds no room stays in the memory and may stand in a
later summary.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from service.planning.policy import STATE_SHARE, Policy
from service.summarising import ledger, talk
from service.summarising.markup import harmless, unmarked
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.message import FRAME_TOKENS, HEAD_TOKENS, Parts, pin_line, state_line
from service.summarising.talk import size
from service.summarising.utterances import Utterance

_RULES = 1 - STATE_SHARE / 2  # of the room is for rules, if need be
_LEDGER = 0.35  # of what rules and state leave, for calls on whose results others went on
_LEAST_WORTH = 0.08  # of talk beside a state, for a token, in units of a rare word
_STORED = 3  # times the room: so much talk is kept for later summaries
_MOST_PINS = 400


def state_tokens(memory: Memory, policy: Policy) -> int:
    """How long a state is asked for: rules do not age, so a summariser leaves them their room."""
    rules = _price([pin_line(pin) for pin in memory.rules])
    left = policy.summary_tokens - FRAME_TOKENS - rules - HEAD_TOKENS
    # As much as `fitted` leaves it whatever the rules take.
    return max(min(policy.state_tokens, left), policy.state_tokens // 2)


def fitted(memory: Memory, room: int) -> Parts:
    """What `room` tokens have room for."""
    # Rules do not age: as many as can stand. Of quotations the newest.
    rules = _Chosen(memory.rules, lambda pin: len(pin.text))
    quotations = _Chosen(memory.quotations, lambda pin: -pin.number)
    # Without a state, all that is chosen comes first.
    left = room - rules.take(int(room * _RULES) if memory.state else room)
    state = _first_lines([state_line(line) for line in memory.state], left - HEAD_TOKENS)
    left -= _price(state)
    left -= rules.take(left)

    calls = _calls(memory, int(left * _LEDGER) - HEAD_TOKENS, taken_up=True)
    left -= quotations.take(left - _price(calls))
    known = [*rules.lines, *state, *quotations.lines]
    spoken = _talk(memory, left - _price(calls) - HEAD_TOKENS, known)
    # What the talk did not need is the ledger's.
    calls = _calls(memory, left - _price(spoken) - HEAD_TOKENS)
    left_out = len(memory.rules) + len(memory.quotations)
    left_out -= len(rules.shown) + len(quotations.shown)
    return Parts(rules.lines, state, quotations.lines, spoken, calls, left_out)


def stored(memory: Memory, room: int) -> Memory:
    """The memory without what no later summary will have room for; `room` is that of one."""
    kept = tuple(talk.fitted(_unpinned(memory), _STORED * room))
    return replace(memory, pins=_few_enough(memory.pins), talk=kept)


def _few_enough(pins: Sequence[Pin]) -> tuple[Pin, ...]:
    """Of too many the oldest quotations go first: no number of them pushes a rule out."""
    surplus = max(len(pins) - _MOST_PINS, 0)
    others = [pin.number for pin in pins if pin.kind is not Kind.RULE]
    gone = set(others[:surplus])
    return tuple(pin for pin in pins if pin.number not in gone)[-_MOST_PINS:]


class _Chosen:
    """The pins of one kind, and those of them that are shown so far."""

    def __init__(self, pins: Sequence[Pin], precedence: Callable[[Pin], int]) -> None:
        self.shown: dict[int, str] = {}
        self._ranked = sorted(pins, key=precedence)

    @property
    def lines(self) -> tuple[str, ...]:
        """In the order in which they were said."""
        return tuple(line for _, line in sorted(self.shown.items()))

    def take(self, room: int) -> int:
        """Shows as many more as `room` tokens have room for, and returns what they take."""
        taken = 0 if self.shown else HEAD_TOKENS
        for pin in self._ranked:
            line = pin_line(pin)
            price = size([line])
            # A long one that finds no room does not keep shorter ones behind it out.
            if pin.number not in self.shown and taken + price <= room:
                taken += price
                self.shown[pin.number] = line
        return taken if self.shown else 0


def _price(lines: Sequence[str]) -> int:
    """What a part takes, with its head; nothing without a line."""
    return size(lines) + HEAD_TOKENS if lines else 0


def _first_lines(lines: Iterable[str], room: int) -> tuple[str, ...]:
    """The first of the lines that fit, without heads that have none."""
    kept: list[str] = []
    for line in lines:
        price = size([line])
        if price > room:
            continue
        room -= price
        if line.startswith("#") and kept and kept[-1].startswith("#"):
            kept.pop()
        kept.append(line)
    if kept and kept[-1].startswith("#"):
        kept.pop()
    return tuple(kept)


def _calls(memory: Memory, room: int, *, taken_up: bool = False) -> tuple[str, ...]:
    shown = ledger.lines(memory.ledger, room, taken_up=taken_up)
    return tuple(harmless(unmarked(line)) for line in shown)


def _talk(memory: Memory, room: int, known: Sequence[str]) -> tuple[str, ...]:
    """What no summariser has read comes first; what it has read has to be worth its tokens."""
    unpinned = _unpinned(memory)
    if not memory.state:
        return talk.lines(talk.fitted(unpinned, room, known))
    since = talk.fitted([one for one in unpinned if one.step > memory.told], room)
    left = room - size(talk.lines(since))
    before = [one for one in unpinned if one.step <= memory.told]
    return talk.lines([*talk.fitted(before, left, known, _LEAST_WORTH), *since])


def _unpinned(memory: Memory) -> list[Utterance]:
    """The talk without what stands as a pin."""
    pinned = {pin.utterance for pin in (*memory.rules, *memory.quotations)}
    return [one for one in memory.talk if one.number not in pinned]
