"""Message bodies as bytes, behind one codec: today compressed JSON; encryption can join without a change of schema."""

import json
import zlib
from typing import Any

_ZLIB_JSON = b"\x01"


def pack(body: dict[str, Any]) -> bytes:
    """A body as bytes; the first byte names the encoding."""
    return _ZLIB_JSON + zlib.compress(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), 6)


def unpack(data: bytes) -> dict[str, Any]:
    """The body again.

    Raises:
        ValueError: the encoding is not known to this version.
    """
    if data[:1] != _ZLIB_JSON:
        raise ValueError(f"message body in unknown encoding {data[:1]!r}; it was written by a newer version")
    body: dict[str, Any] = json.loads(zlib.decompress(data[1:]))
    return body
