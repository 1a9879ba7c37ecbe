"""The keys of `PRECIS_ENCRYPTION_KEYS`, which encrypt stored texts. Pure."""

import base64
import re
from collections.abc import Sequence
from typing import NamedTuple

_KEY_BYTES = 32  # AES-256
_MOST_KEYS = 255  # an id is one byte of a stored value
_MAKE_KEY = "`precis keys new-encryption-key` makes one"


class EncryptionKey(NamedTuple):
    """One of `PRECIS_ENCRYPTION_KEYS`: a number from 1 to 255, and 32 bytes."""

    id: int
    secret: bytes


class EncryptionKeys(NamedTuple):
    """All keys, and the id of the one that encrypts; None if new texts are stored as they are."""

    keys: Sequence[EncryptionKey] = ()
    writes: int | None = None


def parse_keys(text: str) -> EncryptionKeys:
    """The keys of a list `id:base64`, separated by commas or white space.

    Raises:
        ValueError: a key is invalid; the message quotes no part of it.
    """
    entries = re.split(r"[,\s]+", text.strip(", \t\r\n"))
    if entries[0] == "none":  # no key encrypts new texts
        return EncryptionKeys(_split_keys(entries[1:]))
    keys = _split_keys(entries)
    return EncryptionKeys(keys, keys[0].id)


def _split_keys(entries: Sequence[str]) -> list[EncryptionKey]:
    keys = list[EncryptionKey]()
    for place, entry in enumerate(entries, 1):
        number, _, encoded = entry.partition(":")
        try:
            key = EncryptionKey(int(number), base64.b64decode(encoded, validate=True))
        except ValueError:
            raise ValueError(f"key {place} is not of the form `id:base64`; {_MAKE_KEY}") from None
        if not 1 <= key.id <= _MOST_KEYS:
            raise ValueError(
                f"key {place} has the id {key.id}, which is not from 1 to {_MOST_KEYS}"
            )
        if len(key.secret) != _KEY_BYTES:
            raise ValueError(
                f"key {key.id} has {len(key.secret)} bytes and not {_KEY_BYTES}; {_MAKE_KEY}"
            )
        if key.id in (other.id for other in keys):
            raise ValueError(f"there are two keys of the id {key.id}")
        keys.append(key)
    return keys
