"""Limits the wrong keys of an address; each process counts by itself, in memory.

An address that sends too many is answered 429 after a moment, so that a client that waits for its
answers cannot hammer. All other rates are the work of the proxy in front.
"""

import asyncio
from ipaddress import ip_address, ip_network
from time import monotonic
from typing import Final

from service.errors import TooMany

# A forgotten filter with a revoked key asks some times in a minute; a guess needs far more.
_MOST_WRONG_KEYS: Final = 30  # of an address in a minute
_MOST_COUNTED: Final = 20_000  # addresses
_MINUTE: Final = 60  # seconds
_HELD_BACK: Final = 1.0  # seconds until a client without a key is told that it asks too much


class _Counter:
    """Counts by address within the current minute."""

    def __init__(self) -> None:
        self._ends = 0.0
        self._counts: dict[str, int] = {}

    def add(self, address: str) -> int:
        """Counts once more. Returns the count with it."""
        count = self.count(address) + 1
        # Somebody has more addresses than are counted.
        if len(self._counts) >= _MOST_COUNTED:
            self._counts.clear()
        self._counts[address] = count
        return count

    def count(self, address: str) -> int:
        """The count of an address."""
        now = monotonic()
        if self._ends <= now:
            self._counts.clear()
            self._ends = now + _MINUTE
        return self._counts.get(address, 0)


class Limiter:
    """The limits of one process."""

    def __init__(self) -> None:
        self._wrong_keys = _Counter()
        self._refusals = _Counter()

    async def check_wrong_keys(self, address: str) -> None:
        """Refuses to look up a key that nobody knows, once too many of its address were wrong.

        Raises:
            TooMany: too many keys of this address were wrong lately.
        """
        if self._wrong_keys.count(find_network(address)) < _MOST_WRONG_KEYS:
            return
        await asyncio.sleep(_HELD_BACK)
        raise TooMany(
            "too many API keys from this address were wrong; try again in a minute, with a key"
            " that `precis keys list` shows",
            retry_after=_MINUTE,
        )

    def wrong_key(self, address: str) -> None:
        """Counts a key that was missing or wrong."""
        self._wrong_keys.add(find_network(address))

    def is_first_refusal(self, address: str) -> bool:
        """Whether a refusal is the first of its address in a minute, and so to be noted."""
        return self._refusals.add(find_network(address)) == 1


def find_network(address: str) -> str:
    """The network of one client: an IPv4 address, or the /64 of an IPv6 client."""
    if ":" not in address:
        return address
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ip_network((ip, 64), strict=False))
