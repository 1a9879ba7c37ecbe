"""Packs texts, messages and memories of summaries into compressed bytes (zstd), and unpacks them.

The first byte names the encoding. The bytes are stored sealed (`storage.sealing`) or plain. The
words by which a message is searched stand on a second line behind its body, which has nearly all of
them too: apart, they would take twice as much. A memory is packed with its parent's memory and its
own summary as the dictionary; every 32nd is packed without its parent's.
"""

import json
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import zstandard

from service.errors import CannotOpen
from service.recall.parts import SearchedPart
from service.summarising.memory import Memory

_JSON = b"\x01"
# 2 says that a value is sealed (`storage.sealing`).
_TEXT = b"\x03"
_LEVEL = 9  # a summary takes a millisecond
_DECODE_WORDS = msgspec.json.Decoder(list[SearchedPart]).decode


def pack(value: dict[str, Any], words: list[SearchedPart] | None = None) -> bytes:
    """A body as bytes, with the words by which it is searched, if these are stored too."""
    lines = [value] if words is None else [value, words]
    return _JSON + _compress(b"\n".join(map(msgspec.json.encode, lines)))


def unpack(data: bytes) -> dict[str, Any]:
    """The body again.

    Raises:
        CannotOpen: a newer version wrote it.
    """
    line, _, _ = _decompress(data, _JSON).partition(b"\n")
    body: dict[str, Any] = json.loads(line)
    return body


def unpack_words(data: bytes) -> list[SearchedPart] | None:
    """The words by which a message is searched; None if only its body is stored.

    Raises as `unpack`.
    """
    _, _, line = _decompress(data, _JSON).partition(b"\n")
    return _DECODE_WORDS(line) if line else None


def pack_text(text: str, like: str = "") -> bytes:
    """A text as bytes. Parts that it has in common with a text `like` it take no room.

    That text is needed to unpack it.
    """
    return _TEXT + _compress(text.encode(), like.encode())


def unpack_text(data: bytes, like: str = "") -> str:
    """The text again. Raises as `unpack`."""
    return _decompress(data, _TEXT, like.encode()).decode()


class _Zstd(threading.local):
    """One for each thread: making it takes longer than using it, and threads cannot share it."""

    def __init__(self) -> None:
        """Runs in each thread that asks."""
        self.compressor = zstandard.ZstdCompressor(_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_PLAIN = _Zstd()


def _compress(plain: bytes, like: bytes = b"") -> bytes:
    if not like:
        return _PLAIN.compressor.compress(plain)
    # The checksum finds out when another text is given as `like` on the way back.
    return zstandard.ZstdCompressor(_LEVEL, _make_dictionary(like), write_checksum=True).compress(
        plain
    )


def _decompress(data: bytes, encoding: bytes, like: bytes = b"") -> bytes:
    if data[:1] != encoding:
        raise CannotOpen(
            f"a text in unknown encoding {data[:1]!r}; it was written by a newer version"
        )
    if not like:
        return _PLAIN.decompressor.decompress(data[1:])
    return zstandard.ZstdDecompressor(_make_dictionary(like)).decompress(data[1:])


def _make_dictionary(like: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(like, zstandard.DICT_TYPE_RAWCONTENT)


WHOLE_EVERY = 32
"""Checkpoints of a line; `checkpoints.py` counts with it too."""


class StoredMemory(NamedTuple):
    """A memory as it is stored, and the summary that stands beside it; both packed."""

    memory: bytes
    summary: bytes


_DECODE = msgspec.json.Decoder(Memory).decode


def pack_memory(memory: Memory, summary: str = "", line: Sequence[StoredMemory] = ()) -> bytes:
    """A memory as bytes; `summary` is the message made of it, `line` leads to what it grew from."""
    before = _read(line) if len(line) < WHOLE_EVERY else ""
    # A text may be of a class of its own, such as a number that stands as in its source.
    text = msgspec.json.encode(memory, enc_hook=str).decode()
    return pack_text(text, like=before + summary)


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
        text = unpack_text(one.memory, like=text + unpack_text(one.summary))
    return text
