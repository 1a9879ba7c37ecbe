"""How much one client may ask: by its address before there is a key, by its key after that.

Counts are of this process alone, and kept in memory. What is too much is answered with 429, and for
those without a key only after a moment: a client that waits for its answers cannot hammer.
"""

import asyncio
from functools import lru_cache
from ipaddress import ip_address, ip_network
from math import ceil
from time import monotonic
from typing import Final

from limits import RateLimitItem, RateLimitItemPerMinute, RateLimitItemPerSecond, parse
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter

from service.errors import TooMany
from service.settings import Settings

_MOST_COUNTED: Final = 20_000  # windows
_HELD_BACK: Final = 1.0  # seconds until a client without a key is told that it asks too much
_SIGN_INS: Final = parse("10 per 5 minutes")
_TRICKLE: Final = RateLimitItemPerSecond(1)
_REFUSAL: Final = RateLimitItemPerMinute(1)


class _Counters(Storage):
    """Windows in memory, as the library's strategies count in them. Only for the event loop.

    The library's own storages sweep all windows at each hit, or start threads.
    """

    STORAGE_SCHEME: list[str] | None = ["precis"]  # noqa: RUF012 - as the library declares it

    def __init__(self) -> None:
        super().__init__()
        # The count, and when the window ends.
        self._windows: dict[str, tuple[int, float]] = {}

    @property
    def base_exceptions(self) -> type[Exception]:
        """The library's hook; a dictionary fails in no way of its own."""
        return KeyError

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Counts, in a new window if there is none."""
        count, ends = self._windows.get(key, (0, 0.0))
        now = monotonic()
        if ends <= now:
            self._windows.pop(key, None)
            self._make_room(now)
            count, ends = 0, now + expiry
        self._windows[key] = count + amount, ends
        return count + amount

    def _make_room(self, now: float) -> None:
        if len(self._windows) < _MOST_COUNTED:
            return
        self._windows = {name: one for name, one in self._windows.items() if one[1] > now}
        # Somebody has more addresses than we count: the oldest half is forgotten.
        for name in list(self._windows)[: max(0, len(self._windows) - _MOST_COUNTED // 2)]:
            del self._windows[name]

    def get(self, key: str) -> int:
        """The count of a window."""
        count, ends = self._windows.get(key, (0, 0.0))
        return count if ends > monotonic() else 0

    def get_expiry(self, key: str) -> float:
        """When a window ends, by the clock of `monotonic`."""
        return self._windows.get(key, (0, monotonic()))[1]

    def check(self) -> bool:
        """The library's hook."""
        return True

    def reset(self) -> int:
        """Forgets all windows."""
        forgotten = len(self._windows)
        self._windows.clear()
        return forgotten

    def clear(self, key: str) -> None:
        """Forgets one window."""
        self._windows.pop(key, None)


class Limiter:
    """The limits of one process."""

    def __init__(self, settings: Settings) -> None:
        self._counters = _Counters()
        self._windows = FixedWindowRateLimiter(self._counters)
        self._wrong_keys = _of_minute(settings.max_wrong_keys)
        self._open = _of_second(settings.max_open_requests)
        self._of_key = _of_minute(settings.max_key_requests)

    async def check_stranger(self, address: str) -> None:
        """Before a key that nobody knows is looked up.

        Raises:
            TooMany: too many keys of this address were wrong lately.
        """
        item, network = self._wrong_keys, network_of(address)
        if item is None or self._windows.test(item, "wrong-key", network):
            return
        # One a second is still looked at: behind this address there may be somebody with a new key.
        if self._windows.hit(_TRICKLE, "wrong-key", network):
            return
        await asyncio.sleep(_HELD_BACK)
        raise TooMany(
            "too many API keys from this address were wrong; try again in a minute, with a key"
            " that `precis keys list` shows (PRECIS_MAX_WRONG_KEYS sets the limit)",
            self._seconds(item, "wrong-key", network),
        )

    def wrong_key(self, address: str) -> None:
        """Counts a key that was missing or wrong."""
        if self._wrong_keys:
            self._windows.hit(self._wrong_keys, "wrong-key", network_of(address))

    async def check_open(self, address: str) -> None:
        """Before a request that needs no key is answered.

        Raises:
            TooMany: this address sends too many.
        """
        item, network = self._open, network_of(address)
        if item is None or self._windows.hit(item, "open", network):
            return
        await asyncio.sleep(_HELD_BACK)
        raise TooMany(
            "too many requests from this address; ask less often (PRECIS_MAX_OPEN_REQUESTS sets"
            " the limit)",
            self._seconds(item, "open", network),
        )

    def check_key(self, key: int) -> None:
        """Counts a request with a key.

        Raises:
            TooMany: too many were sent with it.
        """
        item = self._of_key
        # Not `hit`, which makes the window's name each time: the hot read asks.
        if item is None or self._counters.incr(_name_of(item, key), 60) <= item.amount:
            return
        raise TooMany(
            "too many requests with this key; ask less often (PRECIS_MAX_KEY_REQUESTS sets the"
            " limit)",
            self._seconds(item, "key", str(key)),
        )

    def check_sign_in(self, address: str) -> None:
        """Before somebody signs in to the pages.

        Raises:
            TooMany: ten keys of this address were wrong.
        """
        network = network_of(address)
        if not self._windows.test(_SIGN_INS, "sign-in", network):
            raise TooMany(
                "ten keys from this address were wrong; try again in five minutes",
                self._seconds(_SIGN_INS, "sign-in", network),
            )

    def wrong_sign_in(self, address: str) -> None:
        """Counts a key that signed nobody in."""
        self._windows.hit(_SIGN_INS, "sign-in", network_of(address))

    def is_first_refusal(self, address: str) -> bool:
        """Whether a refusal is the first of its address in a minute, and so to be noted."""
        return self._windows.hit(_REFUSAL, "refusal", network_of(address))

    def forget(self) -> None:
        """Counts from nothing again."""
        self._counters.reset()

    def _seconds(self, item: RateLimitItem, *names: str) -> int:
        """Seconds until the window of a limit ends."""
        ends = self._counters.get_expiry(item.key_for(*names))
        return max(1, ceil(ends - monotonic()))


@lru_cache(maxsize=4096)
def _name_of(item: RateLimitItem, key: int) -> str:
    """The name of a key's window."""
    return item.key_for("key", str(key))


def _of_minute(most: int) -> RateLimitItem | None:
    return RateLimitItemPerMinute(most) if most else None


def _of_second(most: int) -> RateLimitItem | None:
    return RateLimitItemPerSecond(most) if most else None


def network_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 that an IPv6 client has for itself."""
    if ":" not in address:
        return address
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ip_network((ip, 64), strict=False))
