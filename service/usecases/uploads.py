"""Orders uploads: one of each user at a time, so that no flood blocks other users.

A queue counts for its own process alone, and belongs to one event loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from service.errors import TooMany

BODIES: Final = 4
"""How many of the largest bodies one process holds at a time.

A byte of a body takes up to 23 bytes of memory while it is worked on.
"""
# Each upload has a connection while it stores, and an engine has 15: the others are for all else.
_AT_ONCE: Final = 12
_OF_TENANT: Final = 8
_PATIENCE: Final = 25.0  # seconds that an upload may wait; the filter waits 30 s for the answer
_AGAIN: Final = 10  # seconds after which a client that was refused may try again


class UserKey(NamedTuple):
    """A user of a tenant."""

    tenant: int
    user: str


@dataclass(slots=True, weakref_slot=True)
class _UserUploads:
    """A user's uploads in progress: so many bytes, of which one upload has the turn."""

    turn: asyncio.Semaphore = field(default_factory=asyncio.Semaphore)
    size: int = 0


class UploadQueue:
    """The uploads in progress. Those of one user, of one tenant and of the process are bounded."""

    def __init__(self, largest: int) -> None:
        """An empty queue, for uploads of at most `largest` bytes."""
        # The process then has room left for the largest body of another user.
        self._most = (BODIES - 1) * largest
        # Users and tenants are in here as long as they have an upload in progress.
        self._users = WeakValueDictionary[UserKey, _UserUploads]()
        self._tenants = WeakValueDictionary[int, asyncio.Semaphore]()
        self._process = asyncio.Semaphore(_AT_ONCE)

    @asynccontextmanager
    async def turn(self, user: UserKey, size: int) -> AsyncIterator[None]:
        """Waits for the user's turn, which lasts as long as the context, for `size` bytes.

        Raises:
            TooMany: the user has too many bytes in progress, or the turn did not come in time.
        """
        uploads = self._users.setdefault(user, _UserUploads())
        tenant = self._tenants.setdefault(user.tenant, asyncio.Semaphore(_OF_TENANT))
        if uploads.size and uploads.size + size > self._most:
            raise _refuse(f"already has {uploads.size / 2**20:.0f} MB of uploads in progress")
        uploads.size += size
        try:
            async with AsyncExitStack() as turns:
                try:
                    async with asyncio.timeout(_PATIENCE):
                        for places in (uploads.turn, tenant, self._process):
                            await turns.enter_async_context(places)
                except TimeoutError:
                    raise _refuse(f"has uploads that took {_PATIENCE:g} s") from None
                yield
        finally:
            uploads.size -= size


def _refuse(what: str) -> TooMany:
    return TooMany(f"This user {what}; retry in {_AGAIN} s", retry_after=_AGAIN)
