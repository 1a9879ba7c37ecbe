"""What a summary says, as bytes: packed, and without what is stored beside it.

Of a list, what stands in the memory before is stored as its places there, so a sentence is stored
once on a line of checkpoints, however many of them carry it on. A sentence that the summary message
shows is stored as its place in that. To read one, those that it grew
from are read too, down to the last one that is stored whole: every 16th is, so that reading does
not grow with the chat. JSON that does not fit the types is an error, not a guess.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from service.storage import codec
from service.summarising.ledger import Entry
from service.summarising.memory import Memory, Pin
from service.summarising.utterances import Speaker, Utterance
from service.text.blocks import Sort

WHOLE_EVERY = 16
"""Checkpoints of a line; `checkpoints.sql` counts with it too."""


class Stored(NamedTuple):
    """A memory as it is stored, and the summary that stands beside it, if one does; both packed."""

    memory: bytes
    summary: bytes | None = None


_NOTHING = Memory()
_Run: TypeAlias = tuple[int, int]
"""The first place in the list before, and the one behind the last."""
T = TypeVar("T", Pin, Utterance, Entry)
_SAID = tuple(Utterance.__dataclass_fields__)


class _Said(msgspec.Struct):
    """Utterances by column, because like follows like so, and packs better.

    A text that stands in the summary message is stored as its place there and its length.
    """

    step: list[int]
    place: list[int]
    speaker: list[Speaker]
    text: list[str | tuple[int, int]]
    source: list[str]
    at: list[int | None]
    sort: list[Sort]
    context: list[str]


class _Stored(msgspec.Struct):
    """A memory, with runs in place of what stands in the one before.

    In the talk, None stands for the next utterance that was `said` since.
    """

    state: tuple[str, ...]
    pins: list[Pin | _Run]
    talk: list[_Run | None]
    said: _Said
    ledger: list[Entry | _Run]
    heard: int
    told: int


_DECODE = msgspec.json.Decoder(_Stored).decode


def packed(memory: Memory, before: Memory = _NOTHING, summary: str = "") -> bytes:
    """A memory as bytes; `before` is what it grew from, `summary` the message made of it."""
    talk = _apart(memory.talk, before.talk)
    stored = _Stored(
        state=memory.state,
        pins=_apart(memory.pins, before.pins),
        talk=[one if isinstance(one, tuple) else None for one in talk],
        said=_columns([one for one in talk if isinstance(one, Utterance)], summary),
        ledger=_apart(memory.ledger, before.ledger),
        heard=memory.heard,
        told=memory.told,
    )
    # A text may be of a class of its own, such as a number that stands as in its source.
    return codec.pack_text(msgspec.json.encode(stored, enc_hook=str).decode())


def unpacked(line: Sequence[Stored]) -> Memory:
    """The last memory of a line, of which the first is stored whole.

    Raises:
        msgspec.ValidationError: one is of another version, or was written by somebody else.
        CannotOpen: the same.
    """
    memory = _NOTHING
    for packed_memory, packed_summary in line:
        stored = _DECODE(codec.unpack_text(packed_memory))
        said = _utterances(stored.said, codec.unpack_text(packed_summary) if packed_summary else "")
        memory = Memory(
            state=stored.state,
            pins=_together(stored.pins, memory.pins),
            talk=_together([one or next(said) for one in stored.talk], memory.talk),
            ledger=_together(stored.ledger, memory.ledger),
            heard=stored.heard,
            told=stored.told,
        )
    return memory


def _columns(said: Sequence[Utterance], summary: str) -> _Said:
    columns = {name: [getattr(one, name) for one in said] for name in _SAID}
    for number, text in enumerate(columns["text"]):
        start = summary.find(text)
        if start >= 0:
            columns["text"][number] = start, len(text)
    return _Said(**columns)


def _utterances(said: _Said, summary: str) -> Iterator[Utterance]:
    texts = [
        one if isinstance(one, str) else summary[one[0] : one[0] + one[1]] for one in said.text
    ]
    columns = msgspec.structs.asdict(said) | {"text": texts}
    return map(Utterance, *columns.values())


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
