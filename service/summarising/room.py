"""What of a memory stands in a summary of so many tokens. Pure.

Room is a maximum, not a goal. Rules come first, whatever their age; then the state; then tool calls
and quotations, of which those that the state tells go first, and then the oldest. Talk that nobody
chose fills what is left, and where there is a state only if it is worth its tokens. What finds no
room stays in the memory and may stand in a later summary.
"""

from collections.abc import Callable, Iterable, Sequence

from service.policy import STATE_SHARE
from service.summarising import ledger, talk
from service.summarising.markup import harmless, unmarked
from service.summarising.memory import Memory, Pin
from service.summarising.message import Parts, pin_line, state_line
from service.summarising.talk import size
from service.summarising.utterances import Utterance
from service.text.terms import is_exact, terms

_RULES = 0.5  # of the room, at most
_LEDGER = 0.25  # of what rules and state leave, as long as there is something else to show
_LEAST_WORTH = 0.12  # of talk beside a state, for a token, in units of a rare word
_TOLD = 0.8  # of a quotation's terms that the state has, for it to be told there
_STORED = 3  # times the room: so much talk is kept for later summaries
_MOST_PINS = 400


def fitted(memory: Memory, room: int) -> Parts:
    """What `room` tokens have room for."""
    rules = _fitting(memory.rules, int(room * _RULES), _newest_first)
    left = room - size(rules)
    state = _first_lines(
        [state_line(line) for line in memory.state], min(left, int(room * STATE_SHARE))
    )
    left -= size(state)

    calls = _calls(memory, int(left * _LEDGER))
    told = terms("\n".join(memory.state))
    quotations = _fitting(
        memory.quotations, left - size(calls), lambda pin: (_is_told(pin, told), -pin.number)
    )
    left -= size(quotations)
    known = [*rules, *state, *quotations]
    spoken = _talk(memory, left - size(calls), known)
    # What the talk did not need is the ledger's.
    calls = _calls(memory, left - size(spoken))
    shown = len(rules) + len(quotations)
    left_out = len(memory.rules) + len(memory.quotations) - shown
    return Parts(rules, state, quotations, spoken, calls, left_out)


def stored(memory: Memory, room: int) -> Memory:
    """The memory without what no later summary will have room for; `room` is that of one."""
    kept = tuple(talk.fitted(_unpinned(memory), _STORED * room))
    return Memory(
        memory.state, memory.pins[-_MOST_PINS:], kept, memory.ledger, memory.heard, memory.told
    )


def _fitting(
    pins: Sequence[Pin], room: int, precedence: Callable[[Pin], tuple[object, ...]]
) -> tuple[str, ...]:
    """The lines of the pins that have room, in their order; those that come first by precedence."""
    shown: dict[int, str] = {}
    for pin in sorted(pins, key=precedence):
        line = pin_line(pin)
        # A long one that finds no room does not keep shorter ones behind it out.
        if size([line]) <= room and line not in shown.values():
            room -= size([line])
            shown[pin.number] = line
    return tuple(line for _, line in sorted(shown.items()))


def _newest_first(pin: Pin) -> tuple[int]:
    return (-pin.number,)


def _is_told(pin: Pin, told: frozenset[str]) -> bool:
    """Whether the state has what a quotation says: all of its values, and most of its words."""
    own = terms(pin.text)
    values = {term for term in own if is_exact(term)}
    return values <= told and len(own & told) >= _TOLD * len(own)


def _first_lines(lines: Iterable[str], room: int) -> tuple[str, ...]:
    """The first of the lines that fit, without a head at the end."""
    kept: list[str] = []
    for line in lines:
        room -= size([line])
        if room < 0:
            break
        kept.append(line)
    while kept and kept[-1].startswith("#"):
        kept.pop()
    return tuple(kept)


def _calls(memory: Memory, room: int) -> tuple[str, ...]:
    return tuple(harmless(unmarked(line)) for line in ledger.lines(memory.ledger, room))


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
