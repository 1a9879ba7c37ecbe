"""Texts as bytes, behind one codec: compressed JSON. The first byte names the encoding.

Message bodies and words for searches are always stored so. What summaries say is, in columns of its
own, when it is sealed (`storage.sealing`); otherwise it stands in plain columns, text and JSONB.
"""

import json
import zlib
from typing import Any

import msgspec

from service.errors import UnknownEncoding

Words = list[tuple[int, int, int, str]]
"""What a message is searched by, as `recall.parts` packs it."""

_ZLIB_JSON = b"\x01"
_DECODE_WORDS = msgspec.json.Decoder(Words).decode


def pack(body: dict[str, Any]) -> bytes:
    """A body as bytes; the first byte names the encoding."""
    return _packed(body)


def unpack(data: bytes) -> dict[str, Any]:
    """The body again.

    Raises:
        UnknownEncoding: a newer version wrote it.
    """
    body: dict[str, Any] = json.loads(_unpacked(data))
    return body


def pack_words(found: Words) -> bytes:
    """What a message is searched by, as bytes."""
    return _packed(found)


def unpack_words(data: bytes) -> Words:
    """The same again; `UnknownEncoding` as for `unpack`."""
    return _DECODE_WORDS(_unpacked(data))


def pack_text(text: str) -> bytes:
    """A text as bytes."""
    return _packed(text)


def unpack_text(data: bytes) -> str:
    """The text again; `UnknownEncoding` as for `unpack`."""
    text: str = msgspec.json.decode(_unpacked(data), type=str)
    return text


def _packed(value: Any) -> bytes:  # noqa: ANN401 - JSON
    return _ZLIB_JSON + zlib.compress(msgspec.json.encode(value), 6)


def _unpacked(data: bytes) -> bytes:
    if data[:1] != _ZLIB_JSON:
        raise UnknownEncoding(
            f"message body in unknown encoding {data[:1]!r}; it was written by a newer version"
        )
    return zlib.decompress(data[1:])
