"""Orders uploads: one of each user at a time, so that no flood blocks other users.

A queue counts for its own process alone, and belongs to one event loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from service.errors import Problem, ProblemType

# Uploads of one user that are worked on or wait. Each holds up to `max_body_bytes` of texts, also
# when its request was answered already, so that no other bound counts them.
_MOST: Final = 16
_PATIENCE: Final = 25.0  # seconds that an upload may wait; the filter waits 30 s for the answer
_AGAIN: Final = 10  # seconds after which a client that was refused may try again


class UserKey(NamedTuple):
    """A user of a tenant."""

    tenant: int
    user: str


@dataclass(slots=True, weakref_slot=True)
class _UserUploads:
    """A user's uploads in progress: their number, and the lock of the one that is worked on."""

    number: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class UploadQueue:
    """The uploads in progress, by user."""

    def __init__(self) -> None:
        # A user is in here for as long as an upload of theirs is in progress.
        self._users = WeakValueDictionary[UserKey, _UserUploads]()

    @asynccontextmanager
    async def turn(self, user: UserKey) -> AsyncIterator[None]:
        """Waits for the user's turn, which lasts as long as the context.

        Raises:
            Problem: TOO_MANY: the user has too many uploads in progress, or waited too long.
        """
        uploads = self._users.setdefault(user, _UserUploads())
        if uploads.number >= _MOST:
            raise _refuse(f"already has {_MOST} uploads in progress")
        uploads.number += 1
        try:
            await _wait_for_turn(uploads.turn)
            try:
                yield
            finally:
                uploads.turn.release()
        finally:
            uploads.number -= 1


async def _wait_for_turn(turn: asyncio.Lock) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await turn.acquire()
    except TimeoutError:
        raise _refuse(f"has uploads that took {_PATIENCE:g} s") from None


def _refuse(what: str) -> Problem:
    told = f"This user {what}; retry in {_AGAIN} s"
    return Problem(told, ProblemType.TOO_MANY, retry_after=_AGAIN)
