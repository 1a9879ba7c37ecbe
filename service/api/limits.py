"""How many wrong keys an address may send, as this process counts it in memory.

What is too much is answered with 429 after a moment, so that a client that waits for its answers
cannot hammer. Rates of all else are the work of the proxy in front.
"""

import asyncio
from ipaddress import ip_address, ip_network
from math import ceil
from time import monotonic
from typing import Final

from service.errors import TooMany

# A forgotten filter with a revoked key asks some times in a minute; a guess needs far more.
_MOST_WRONG_KEYS: Final = 30  # of an address in a minute
_MOST_COUNTED: Final = 20_000  # addresses
_HELD_BACK: Final = 1.0  # seconds until a client without a key is told that it asks too much


class _Counter:
    """How often each address did something in the current window of so many seconds."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._ends = 0.0
        self._counts: dict[str, int] = {}

    def add(self, address: str) -> int:
        """Counts once more. Returns the count with it."""
        count = self.of(address) + 1
        # Somebody has more addresses than are counted.
        if len(self._counts) >= _MOST_COUNTED:
            self._counts.clear()
        self._counts[address] = count
        return count

    def of(self, address: str) -> int:
        """The count of an address."""
        now = monotonic()
        if self._ends <= now:
            self._counts.clear()
            self._ends = now + self._seconds
        return self._counts.get(address, 0)

    def seconds_left(self) -> int:
        """Seconds until the window ends."""
        return max(1, ceil(self._ends - monotonic()))


class Limiter:
    """The limits of one process."""

    def __init__(self) -> None:
        self._wrong_keys = _Counter(60)
        self._looks = _Counter(1)
        self._refusals = _Counter(60)

    async def check_wrong_keys(self, address: str) -> None:
        """Before a key that nobody knows is looked up.

        Raises:
            TooMany: too many keys of this address were wrong lately.
        """
        network = network_of(address)
        if self._wrong_keys.of(network) < _MOST_WRONG_KEYS:
            return
        # One a second is still looked at: behind this address there may be somebody with a new key.
        if self._looks.add(network) == 1:
            return
        await asyncio.sleep(_HELD_BACK)
        raise TooMany(
            "too many API keys from this address were wrong; try again in a minute, with a key"
            " that `precis keys list` shows",
            retry_after=self._wrong_keys.seconds_left(),
        )

    def wrong_key(self, address: str) -> None:
        """Counts a key that was missing or wrong."""
        self._wrong_keys.add(network_of(address))

    def is_first_refusal(self, address: str) -> bool:
        """Whether a refusal is the first of its address in a minute, and so to be noted."""
        return self._refusals.add(network_of(address)) == 1


def network_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 that an IPv6 client has for itself."""
    if ":" not in address:
        return address
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ip_network((ip, 64), strict=False))
