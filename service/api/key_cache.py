"""A cache of API keys in use, so that not every request reads its key from the database."""

from time import monotonic
from typing import Final, NamedTuple

from service.storage import keys
from service.storage.database import Database
from service.storage.keys import Key

# Seconds until a key is read again; a revoked key works that much longer at most.
_KNOWN_FOR: Final = 10.0
_MOST_KNOWN: Final = 1000


class _CachedKey(NamedTuple):
    """A key in use, and the time at which it has to be read again."""

    key: Key
    until: float


class KeyCache:
    """The keys in use. Only for the event loop.

    Unknown keys are not cached, or anybody could fill the memory.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _CachedKey] = {}

    async def find(self, database: Database, key: str) -> Key | None:
        """The key's row, at most `_KNOWN_FOR` seconds old; None when it is unknown."""
        name, now = keys.hash_key(key), monotonic()
        cached = self._known.get(name)
        if cached is not None and cached.until > now:
            return cached.key
        row = await keys.find_known_key(database.hot, key)
        if row and row.in_use:
            self._remember(name, row, now)
        return row

    def _remember(self, name: bytes, key: Key, now: float) -> None:
        # Clearing costs one read for each key in use, and makes it needless to know their ages.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        seconds = _KNOWN_FOR
        if key.seconds_left is not None:
            seconds = min(seconds, key.seconds_left)
        self._known[name] = _CachedKey(key, now + seconds)
