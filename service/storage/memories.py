"""What a summary says, as bytes: packed, and without what the one that it grew from says too.

Of a list, what stands in the memory before is stored as its places there, so a sentence is stored
once on a line of checkpoints, however many of them carry it on. To read one, those that it grew
from are read too, down to the last one that is stored whole: every 16th is, so that reading does
not grow with the chat. JSON that does not fit the types is an error, not a guess.
"""

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import msgspec

from service.storage import codec
from service.summarising.ledger import Entry
from service.summarising.memory import Memory, Pin
from service.summarising.utterances import Utterance

WHOLE_EVERY = 16
"""Checkpoints of a line; `checkpoints.sql` counts with it too."""

_NOTHING = Memory()
_Run: TypeAlias = tuple[int, int]
"""The first place in the list before, and the one behind the last."""
T = TypeVar("T", Pin, Utterance, Entry)


class _Stored(msgspec.Struct):
    """A memory, with runs in place of what stands in the one before."""

    state: tuple[str, ...]
    pins: list[Pin | _Run]
    talk: list[Utterance | _Run]
    ledger: list[Entry | _Run]
    heard: int
    told: int


_DECODE = msgspec.json.Decoder(_Stored).decode


def packed(memory: Memory, before: Memory = _NOTHING) -> bytes:
    """A memory as bytes; `before` is what it grew from."""
    stored = _Stored(
        state=memory.state,
        pins=_apart(memory.pins, before.pins),
        talk=_apart(memory.talk, before.talk),
        ledger=_apart(memory.ledger, before.ledger),
        heard=memory.heard,
        told=memory.told,
    )
    # A text may be of a class of its own, such as a number that stands as in its source.
    return codec.pack_text(msgspec.json.encode(stored, enc_hook=str).decode())


def unpacked(line: Sequence[bytes]) -> Memory:
    """The last memory of a line, of which the first is stored whole.

    Raises:
        msgspec.ValidationError: one is of another version, or was written by somebody else.
        CannotOpen: the same.
    """
    memory = _NOTHING
    for packed_memory in line:
        stored = _DECODE(codec.unpack_text(packed_memory))
        memory = Memory(
            state=stored.state,
            pins=_together(stored.pins, memory.pins),
            talk=_together(stored.talk, memory.talk),
            ledger=_together(stored.ledger, memory.ledger),
            heard=stored.heard,
            told=stored.told,
        )
    return memory


def _apart(items: Sequence[T], before: Sequence[T]) -> list[T | _Run]:
    """The items, with runs in place of those that stand in `before`."""
    places = {item: place for place, item in enumerate(before)}
    stored: list[T | _Run] = []
    for item in items:
        place = places.get(item)
        last = stored[-1] if stored else None
        if place is None:
            stored.append(item)
        elif isinstance(last, tuple) and last[1] == place:
            stored[-1] = (last[0], place + 1)
        else:
            stored.append((place, place + 1))
    return stored


def _together(stored: Sequence[T | _Run], before: Sequence[T]) -> tuple[T, ...]:
    """The items again."""
    items: list[T] = []
    for one in stored:
        if isinstance(one, tuple):
            items += before[slice(*one)]
        else:
            items.append(one)
    return tuple(items)
