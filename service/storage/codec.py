"""Texts as compressed bytes (zlib), behind one codec; the first byte names the encoding.

Message bodies, words for searches, summaries and what they grow from are stored so, sealed
(`storage.sealing`) or as they are.
"""

import json
import zlib
from typing import Any

import msgspec

from service.errors import CannotOpen
from service.recall.parts import SearchedPart

_JSON = b"\x01"
# 2 says that a value is sealed (`storage.sealing`).
_TEXT = b"\x03"
_DECODE_WORDS = msgspec.json.Decoder(list[SearchedPart]).decode


def pack(value: dict[str, Any] | list[SearchedPart]) -> bytes:
    """A body, or what a message is searched by, as bytes."""
    return _JSON + zlib.compress(msgspec.json.encode(value))


def unpack(data: bytes) -> dict[str, Any]:
    """The body again.

    Raises:
        CannotOpen: a newer version wrote it.
    """
    body: dict[str, Any] = json.loads(_unpacked(data, _JSON))
    return body


def unpack_words(data: bytes) -> list[SearchedPart]:
    """What a message is searched by; `CannotOpen` as for `unpack`."""
    return _DECODE_WORDS(_unpacked(data, _JSON))


def pack_text(text: str) -> bytes:
    """A text as bytes."""
    return _TEXT + zlib.compress(text.encode())


def unpack_text(data: bytes) -> str:
    """The text again; `CannotOpen` as for `unpack`."""
    return _unpacked(data, _TEXT).decode()


def _unpacked(data: bytes, encoding: bytes) -> bytes:
    if data[:1] != encoding:
        raise CannotOpen(
            f"a text in unknown encoding {data[:1]!r}; it was written by a newer version"
        )
    return zlib.decompress(data[1:])
