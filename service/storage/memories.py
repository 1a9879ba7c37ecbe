"""What a summary says, as bytes: packed by what it resembles.

A memory has nearly all of the one that it grew from, and what the summary message beside it shows.
Those two are its dictionary, so it takes about what is new in it, however many checkpoints of a
line carry the rest on. To read one, those that it grew from are read too, down to the last one that
is stored without: every 32nd is, so that reading does not grow with the chat. JSON that does not
fit the types is an error, not a guess.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from service.storage import codec
from service.summarising.memory import Memory

WHOLE_EVERY = 32
"""Checkpoints of a line; `checkpoints.py` counts with it too."""


class StoredMemory(NamedTuple):
    """A memory as it is stored, and the summary that stands beside it, if one does; both packed."""

    memory: bytes
    summary: bytes | None = None


_DECODE = msgspec.json.Decoder(Memory).decode


def pack_memory(memory: Memory, summary: str = "", line: Sequence[StoredMemory] = ()) -> bytes:
    """A memory as bytes; `summary` is the message made of it, `line` leads to what it grew from."""
    before = _read(line) if len(line) < WHOLE_EVERY else ""
    # A text may be of a class of its own, such as a number that stands as in its source.
    text = msgspec.json.encode(memory, enc_hook=str).decode()
    return codec.pack_text(text, like=before + summary)


def unpack_memory(line: Sequence[StoredMemory]) -> Memory:
    """The last memory of a line, of which the first is stored whole.

    Raises:
        msgspec.ValidationError: one is of another version, or was written by somebody else.
        CannotOpen: the same.
    """
    return _DECODE(_read(line))


def _read(line: Sequence[StoredMemory]) -> str:
    text = ""
    for one in line:
        summary = codec.unpack_text(one.summary) if one.summary else ""
        text = codec.unpack_text(one.memory, like=text + summary)
    return text
