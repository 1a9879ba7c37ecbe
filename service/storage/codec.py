"""Texts as compressed bytes (zstd), behind one codec; the first byte names the encoding.

Message bodies, summaries and what they grow from are stored so, sealed (`storage.sealing`) or as
they are. What a message is searched by stands on a second line behind its body, of which it repeats
nearly all: apart, it would take twice as much.
"""

import json
import threading
from typing import Any

import msgspec
import zstandard

from service.errors import CannotOpen
from service.recall.parts import SearchedPart

_JSON = b"\x01"
# 2 says that a value is sealed (`storage.sealing`).
_TEXT = b"\x03"
_LEVEL = 9  # a summary takes a millisecond
_DECODE_WORDS = msgspec.json.Decoder(list[SearchedPart]).decode


def pack(value: dict[str, Any], words: list[SearchedPart] | None = None) -> bytes:
    """A body as bytes, with what it is searched by if that is stored too."""
    lines = [value] if words is None else [value, words]
    return _JSON + _packed(b"\n".join(map(msgspec.json.encode, lines)))


def unpack(data: bytes) -> dict[str, Any]:
    """The body again.

    Raises:
        CannotOpen: a newer version wrote it.
    """
    line, _, _ = _unpacked(data, _JSON).partition(b"\n")
    body: dict[str, Any] = json.loads(line)
    return body


def unpack_words(data: bytes) -> list[SearchedPart] | None:
    """What a message is searched by; None where only its body is stored. Raises as `unpack`."""
    _, _, line = _unpacked(data, _JSON).partition(b"\n")
    return _DECODE_WORDS(line) if line else None


def pack_text(text: str, like: str = "") -> bytes:
    """A text as bytes. What it has of another one (`like`), which is to stand by, takes no room."""
    return _TEXT + _packed(text.encode(), like.encode())


def unpack_text(data: bytes, like: str = "") -> str:
    """The text again; `CannotOpen` as for `unpack`."""
    return _unpacked(data, _TEXT, like.encode()).decode()


class _Zstd(threading.local):
    """One for each thread: to make it takes longer than to use it, and two cannot share it."""

    def __init__(self) -> None:
        """Runs in each thread that asks."""
        self.compressor = zstandard.ZstdCompressor(_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_PLAIN = _Zstd()


def _packed(plain: bytes, like: bytes = b"") -> bytes:
    if not like:
        return _PLAIN.compressor.compress(plain)
    # The checksum is for a text that is `like` another one than it was.
    return zstandard.ZstdCompressor(_LEVEL, _dictionary(like), write_checksum=True).compress(plain)


def _unpacked(data: bytes, encoding: bytes, like: bytes = b"") -> bytes:
    if data[:1] != encoding:
        raise CannotOpen(
            f"a text in unknown encoding {data[:1]!r}; it was written by a newer version"
        )
    if not like:
        return _PLAIN.decompressor.decompress(data[1:])
    return zstandard.ZstdDecompressor(_dictionary(like)).decompress(data[1:])


def _dictionary(like: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(like, zstandard.DICT_TYPE_RAWCONTENT)
