"""Texts as compressed bytes (zlib), behind one codec; the first byte names the encoding.

Message bodies, summaries and what they grow from are stored so, sealed (`storage.sealing`) or as
they are. What a message is searched by stands on a second line behind its body, of which it repeats
nearly all: apart, it would take twice as much.
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


def pack(value: dict[str, Any], words: list[SearchedPart] | None = None) -> bytes:
    """A body as bytes, with what it is searched by if that is stored too."""
    lines = [value] if words is None else [value, words]
    return _JSON + zlib.compress(b"\n".join(map(msgspec.json.encode, lines)))


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
