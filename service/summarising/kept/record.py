"""The record: what stands in a summary beside the narrative, within so many tokens. Pure.

Words that a summariser chose come first, then what tools gave and was used, then the talk in its
order. What finds no room stays in the memory and may stand in a later summary, which has more.
It is the built-in summariser, and what stands beside a model's narrative: one mechanism.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby

from service.summarising import ledger
from service.summarising.kept import pins, talk
from service.summarising.kept.later import marks
from service.summarising.markup import harmless, unmarked
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.utterances import Speaker, Utterance
from service.text import tokens
from service.text.blocks import Sort

_TALK = 0.1  # of the room are for what nobody chose, however much was chosen
# Of what chosen words leave, so much is for tools' values, as long as there is talk to show.
_LEDGER = 0.25
# And so much of the room at least, if the values that were used later take as much.
_LEAST_LEDGER = 0.1
_COUNTED = 32  # tokens of the line that counts the other calls
_ITEM = 3  # tokens of a list mark and a line break
_ROUNDS = 32  # of fitting, in each of which a sentence is found not to fit
_SPARE = 3  # tokens that may stay empty: fewer are hardly a sentence
_STORED = 3  # times the room: so much talk is kept for later summaries
_MOST_PINS = 400
_RANKS = list(Kind)


@dataclass(frozen=True, slots=True)
class Record:
    """The lines that are shown, in order.

    `pins` are those that are shown, each with its words; `left_out` counts the others.
    """

    pins: tuple[tuple[Pin, str], ...] = ()
    talk: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()
    left_out: int = 0


def recorded(memory: Memory, room: int) -> Record:
    """What `room` tokens have room for."""
    said = _unpinned(memory)
    later = marks(memory.talk)
    used = _used(memory, int(room * _LEAST_LEDGER))
    # Pins have their share, and what the calls and the talk do not need.
    share = int(room * (1 - _TALK)) - used
    others = _size(_calls(memory, int(room * _LEDGER))) + sum(map(talk.cost, said))
    chosen = _bounded(memory.pins, later, max(share, room - others))
    words = [shown for _, shown in chosen]
    left = room - _size(words)
    # Calls come before the talk: values that were used later stand nowhere else.
    calls = _calls(memory, int(max(left * _LEDGER, min(left, used))))
    heard = fitted(said, later, left - _size(calls), words)
    spoken = tuple(lines(heard, later))
    left -= _size(spoken)
    # What the talk did not need is the ledger's.
    if left > _size(calls):
        calls = _calls(memory, left)
    held = sum(1 for _ in pins.shown(memory.pins))
    return Record(tuple(chosen), spoken, calls, held - len(chosen))


def stored(memory: Memory, room: int) -> Memory:
    """The memory without what no later summary will have room for; `room` is that of one."""
    said = set(talk.chosen(_unpinned(memory), _STORED * room))
    chosen = {pin.utterance for pin in memory.pins}
    kept = tuple(one for one in memory.talk if one in said or one.number in chosen)
    return Memory(memory.narrative, memory.pins[-_MOST_PINS:], kept, memory.ledger, memory.heard)


def _calls(memory: Memory, room: int) -> tuple[str, ...]:
    return tuple(harmless(unmarked(line)) for line in ledger.lines(memory.ledger, room))


def _used(memory: Memory, room: int) -> int:
    """Tokens of the calls whose values were used later, within `room`."""
    if not memory.ledger:
        return 0
    used = tuple(entry for entry in memory.ledger if entry.used)
    lines = ledger.lines(used, room) if used else ()
    return min(_size(lines) + _COUNTED, room)


def _unpinned(memory: Memory) -> list[Utterance]:
    """The talk without what stands as a pin."""
    shown = {pin.utterance for pin in pins.shown(memory.pins)}
    return [one for one in memory.talk if one.number not in shown]


def _bounded(held: Sequence[Pin], later: Mapping[str, str], room: int) -> list[tuple[Pin, str]]:
    """The pins that are shown, in order: the weightiest and newest, when not all can be."""
    told = [(pin, _told(pin, later)) for pin in pins.shown(held)]
    left = room
    kept: set[int] = set()
    for pin, words in sorted(told, key=_precedence):
        # A long pin that finds no room does not keep shorter ones of less weight out.
        price = _cost(words)
        if price <= left:
            left -= price
            kept.add(pin.number)
    return [one for one in told if one[0].number in kept]


def _precedence(one: tuple[Pin, str]) -> tuple[int, int]:
    pin, _ = one
    return _RANKS.index(pin.kind), -pin.number


def _told(pin: Pin, later: Mapping[str, str]) -> str:
    return _with_mark(pins.line(pin), later.get(pin.utterance, ""))


def _with_mark(words: str, later: str) -> str:
    """Words as they are shown, with what was said later."""
    shown = harmless(words)
    return f"{shown} (later: {harmless(unmarked(later))})" if later else shown


def fitted(
    said: Sequence[Utterance], later: Mapping[str, str], room: int, known: Sequence[str] = ()
) -> list[Utterance]:
    """The best of the talk that `room` tokens show, in its order.

    Nothing that is left out fits beside it with tokens to spare, unless more sentences than are
    tried one by one (`_ROUNDS`) miss it by a few.

    Args:
        said: in the order of the talk.
        later: by number, what was said later of it.
        room: tokens.
        known: texts that stand elsewhere in the summary.
    """
    rest = talk.ranked([one for one in said if talk.count(one.text) <= room], known)
    shown: list[Utterance] = []

    # A question, a head or a date stands once, so what an utterance takes is known only when it is
    # clear what is shown beside it: the lines themselves are measured.
    def left(more: Sequence[Utterance]) -> int:
        together = sorted([*shown, *more], key=_place)
        return room - _size(list(lines(together, later)))

    failed: list[Utterance] = []
    for _ in range(_ROUNDS):
        free = left(())
        may_fit = _hopeful(rest, shown, free) if free >= _SPARE else []
        if not may_fit:
            break
        first = _fitting(may_fit, lambda more: left(more) >= 0)
        if first:
            # What is added may make room for others, such as by the date above it.
            shown += may_fit[:first]
            rest, failed = [*rest, *failed], []
        failed += may_fit[first : first + 1]
        done = {one.number for one in (*may_fit[:first], *failed)}
        rest = [one for one in rest if one.number not in done]
    return sorted(shown, key=_place)


def _fitting(ranked: Sequence[Utterance], fits: Callable[[Sequence[Utterance]], bool]) -> int:
    """How many of them fit. Mostly few do, and more cost more to measure: so from below."""
    reached, ahead = 0, 1
    while ahead <= len(ranked) and fits(ranked[:ahead]):
        reached, ahead = ahead, 2 * ahead
    between = range(reached + 1, min(ahead, len(ranked) + 1))
    return reached + bisect_left(between, True, key=lambda number: not fits(ranked[:number]))


def _hopeful(rest: Sequence[Utterance], shown: Sequence[Utterance], room: int) -> list[Utterance]:
    """Those of the `rest` that fit beside what is shown if each takes as little as it may.

    Without a question, a head or a date, that is. A question that stands with its answer already
    takes hardly more.
    """
    begun = {one.step for one in shown}
    asked = {one.context for one in shown}
    hopeful: list[Utterance] = []
    for one in rest:
        words = harmless(unmarked(one.text))
        new = f"{one.speaker}: {words}"
        # In the place of the sign of a gap, it takes one token less.
        least = talk.count(f" {words}") - 1 if one.step in begun else talk.count(new) + _ITEM
        least = 0 if one.text in asked else least
        if least <= room:
            room -= least
            begun.add(one.step)
            hopeful.append(one)
    return hopeful


def _place(one: Utterance) -> tuple[int, int]:
    return one.step, one.place


def lines(said: Sequence[Utterance], later: Mapping[str, str]) -> Iterator[str]:
    """The talk as it is shown: a line for each step, a date above where the day changes."""
    day = ""
    before: set[str] = set()
    for (_, speaker), group in groupby(said, key=lambda one: (one.step, one.speaker)):
        spoken = list(group)
        if _day(spoken[0]) not in ("", day):
            day = _day(spoken[0])
            yield f"({day})"
        yield f"{speaker}: {_line(spoken, later, before)}"
        before = {one.text for one in spoken} if speaker is Speaker.ASSISTANT else set()


def _line(spoken: Sequence[Utterance], later: Mapping[str, str], before: set[str]) -> str:
    """The utterances of a step. A question or a head stands before the first that needs it."""
    parts: list[str] = []
    told = set(before)
    place = 0
    for before_it, one in zip([None, *spoken], spoken, strict=False):
        words = _words(one, before_it, told)
        told |= {one.context, one.text}
        if place and one.place > place + 1:
            parts.append("…")
        parts.append(_with_mark(unmarked(words), later.get(one.number, "")))
        place = one.place
    return " ".join(parts)


def _words(one: Utterance, before_it: Utterance | None, told: Set[str]) -> str:
    """An utterance with what is not `told` yet of what it needs."""
    if one.sort is Sort.DOCUMENT:
        goes_on = before_it and before_it.sort is Sort.DOCUMENT
        return talk.quoted(one) if goes_on else talk.told(one)
    return one.text if one.context in told else talk.told(one)


def _day(one: Utterance) -> str:
    return f"{datetime.fromtimestamp(one.at, UTC):%Y-%m-%d}" if one.at else ""


def _size(lines: Sequence[str]) -> int:
    return sum(map(_cost, lines))


# A record is fitted into its room in several steps, with mostly the same lines.
@lru_cache(maxsize=4096)
def _cost(line: str) -> int:
    return tokens.count(line) + _ITEM
