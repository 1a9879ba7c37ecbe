"""Texts as bytes, behind one codec; the first byte names the encoding.

Bodies and words are JSON, compressed well (zlib). A text by itself is read on the request path, so
it is compressed by what is read fastest (LZ4): 33 KB in 10 µs where zlib takes 120, for half as
many bytes again.

Message bodies and words for searches are always stored so. What summaries say is, in columns of its
own, when it is sealed (`storage.sealing`); otherwise it stands in plain columns, text and JSONB.
"""

import json
import zlib
from typing import Any

import lz4.block
import msgspec

from service.errors import CannotOpen

Words = list[tuple[int, int, int, str]]
"""What a message is searched by, as `recall.parts` packs it."""

_ZLIB_JSON = b"\x01"
# 2 says that a value is sealed (`storage.sealing`).
_LZ4_UTF8 = b"\x03"
_DECODE_WORDS = msgspec.json.Decoder(Words).decode


def pack(body: dict[str, Any]) -> bytes:
    """A body as bytes; the first byte names the encoding."""
    return _packed(body)


def unpack(data: bytes) -> dict[str, Any]:
    """The body again.

    Raises:
        CannotOpen: a newer version wrote it.
    """
    body: dict[str, Any] = json.loads(_unpacked(data))
    return body


def pack_words(found: Words) -> bytes:
    """What a message is searched by, as bytes."""
    return _packed(found)


def unpack_words(data: bytes) -> Words:
    """The same again; `CannotOpen` as for `unpack`."""
    return _DECODE_WORDS(_unpacked(data))


def pack_text(text: str) -> bytes:
    """A text as bytes."""
    return b"".join((_LZ4_UTF8, lz4.block.compress(text.encode())))


def unpack_text(data: bytes) -> str:
    """The text again; `CannotOpen` as for `unpack`."""
    if data[:1] != _LZ4_UTF8:
        raise _unknown(data)
    return str(lz4.block.decompress(data[1:]), "utf-8")


def _packed(value: Any) -> bytes:  # noqa: ANN401 - JSON
    return _ZLIB_JSON + zlib.compress(msgspec.json.encode(value), 6)


def _unpacked(data: bytes) -> bytes:
    if data[:1] != _ZLIB_JSON:
        raise _unknown(data)
    return zlib.decompress(data[1:])


def _unknown(data: bytes) -> CannotOpen:
    return CannotOpen(f"a text in unknown encoding {data[:1]!r}; it was written by a newer version")
