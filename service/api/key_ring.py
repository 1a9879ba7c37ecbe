"""Keys that were used recently, so that a request does not cost a second read.

In: a key as a client sent it. Out: its row. A row is read again beside the requests, so that those
of a key in use do not wait for that.
"""

import asyncio
from time import monotonic
from typing import Final, NamedTuple

import structlog

from service.storage import keys, outage
from service.storage.database import Database
from service.storage.keys import Key

# Seconds that a key is believed; a revoked key works that much longer at most.
_KNOWN_FOR: Final = 10.0
_READ_AGAIN: Final = 5.0  # seconds after which the next request has a key read again beside it
_MOST_KNOWN: Final = 1000

log = structlog.get_logger(__name__)


class _CachedKey(NamedTuple):
    """A key in use, and when its row was read; it is believed until then."""

    key: Key
    read: float
    until: float


class KeyRing:
    """The keys in use. Only for the event loop.

    Others are not remembered, or anybody could fill the memory.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _CachedKey] = {}
        self._reading: dict[bytes, asyncio.Task[None]] = {}

    def has(self, key: str) -> bool:
        """Whether a key was in use when it was looked up last, however long ago that was."""
        return keys.hash_of(key) in self._known

    async def find(self, database: Database, key: str) -> Key | None:
        """The key's row, at most `_KNOWN_FOR` seconds old; None when it is unknown."""
        name, now = keys.hash_of(key), monotonic()
        cached = self._known.get(name)
        if cached is None or cached.until <= now:
            return await self._read(database, name, key)
        if cached.read + _READ_AGAIN <= now and name not in self._reading:
            self._reading[name] = asyncio.create_task(self._read_again(database, name, key))
        return cached.key

    async def _read(self, database: Database, name: bytes, key: str) -> Key | None:
        """The key's row as it is stored, which is remembered if it is in use."""
        now = monotonic()
        row = await keys.known(database.hot, key)
        self._known.pop(name, None)
        if row and row.in_use:
            self._remember(name, row, now)
        return row

    async def _read_again(self, database: Database, name: bytes, key: str) -> None:
        try:
            await self._read(database, name, key)
        except outage.FAILURES as error:  # a request says so, when the key is not believed any more
            log.warning("key.not_read", error=type(error).__name__)
        finally:
            del self._reading[name]

    def _remember(self, name: bytes, key: Key, now: float) -> None:
        # Clearing costs one read for each key in use, and spares a bookkeeping of ages.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        seconds = _KNOWN_FOR if key.seconds_left is None else min(_KNOWN_FOR, key.seconds_left)
        self._known[name] = _CachedKey(key, now, now + seconds)
