"""Message bodies as bytes, behind one codec: compressed JSON.

The first byte names the encoding, so bodies could be encrypted without a change of schema. That
holds for bodies alone: what summaries say (text, narrative, pins, talk, ledger) and partial turns
are plain columns, text and JSONB, and encrypting those would change the schema.
"""

import json
import zlib
from typing import Any

import msgspec

from service.errors import UnknownEncoding

_ZLIB_JSON = b"\x01"


def pack(body: dict[str, Any]) -> bytes:
    """A body as bytes; the first byte names the encoding."""
    return _ZLIB_JSON + zlib.compress(msgspec.json.encode(body), 6)


def unpack(data: bytes) -> dict[str, Any]:
    """The body again.

    Raises:
        UnknownEncoding: a newer version wrote it.
    """
    if data[:1] != _ZLIB_JSON:
        raise UnknownEncoding(
            f"message body in unknown encoding {data[:1]!r}; it was written by a newer version"
        )
    body: dict[str, Any] = json.loads(zlib.decompress(data[1:]))
    return body
