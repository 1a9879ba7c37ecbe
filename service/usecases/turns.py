"""Whose ingest is next: one of each user at a time, and none waits for another user's flood.

In: who wants to ingest, and how many bytes. Out: a turn, or a refusal. Of this process alone, and
only for its event loop.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from service.errors import TooMany

BODIES: Final = 4
"""The largest bodies that one process holds at a time, in bytes.

A byte of a body takes up to 23 bytes of memory while it is worked on.
"""
# Each has a connection while it stores, and an engine has 15: the others are for all else.
_AT_ONCE: Final = 12
_OF_TENANT: Final = 8
_PATIENCE: Final = 25.0  # seconds that one waits for its turn; the filter waits 30 s for the answer
_AGAIN: Final = 10  # seconds after which somebody who was refused may try again


class Whose(NamedTuple):
    """A user of a tenant."""

    tenant: int
    user: str


class Turns:
    """Ingests under way, and a line of waiting ones for each user."""

    def __init__(self, largest: int) -> None:
        """No turns yet, of uploads of at most `largest` bytes."""
        # Beside what one user has here, the largest body of somebody else is taken.
        self._most = (BODIES - 1) * largest
        self._bytes = Counter[Whose]()
        self._under_way = set[Whose]()
        # Whoever got no turn for longest comes first.
        self._lines: dict[Whose, deque[asyncio.Event]] = {}

    @asynccontextmanager
    async def turn(self, whose: Whose, size: int) -> AsyncIterator[None]:
        """Within, it is this user's turn, for an upload of `size` bytes.

        Raises:
            TooMany: the user has too many bytes here already, or the turn did not come in time.
        """
        if self._bytes[whose] and self._bytes[whose] + size > self._most:
            raise _too_many(f"have {self._bytes[whose]} bytes here already")
        self._bytes[whose] += size
        try:
            await self._come(whose)
            try:
                yield
            finally:
                self._end(whose)
        finally:
            self._bytes[whose] -= size
            if not self._bytes[whose]:
                del self._bytes[whose]

    async def _come(self, whose: Whose) -> None:
        """Waits for a turn."""
        turn = asyncio.Event()
        self._lines.setdefault(whose, deque()).append(turn)
        self._go_on()
        try:
            async with asyncio.timeout(_PATIENCE):
                await turn.wait()
        except BaseException as error:
            if turn.is_set():  # it came in the same moment
                self._end(whose)
            else:
                self._leave(whose, turn)
            if isinstance(error, TimeoutError):
                raise _too_many(f"were not done within {_PATIENCE:g} s") from None
            raise

    def _leave(self, whose: Whose, turn: asyncio.Event) -> None:
        """Takes one that waits no longer out of its line."""
        self._lines[whose].remove(turn)
        if not self._lines[whose]:
            del self._lines[whose]

    def _end(self, whose: Whose) -> None:
        self._under_way.remove(whose)
        self._go_on()

    def _go_on(self) -> None:
        """Gives turns as long as somebody may have one."""
        while len(self._under_way) < _AT_ONCE and (whose := self._next()):
            line = self._lines.pop(whose)
            self._under_way.add(whose)
            line.popleft().set()
            if line:  # at the end of all lines
                self._lines[whose] = line

    def _next(self) -> Whose | None:
        """The first line of the tenant that has the fewest under way; None if all have to wait."""
        under_way = Counter(one.tenant for one in self._under_way)
        may_begin = [
            one
            for one in self._lines
            if one not in self._under_way and under_way[one.tenant] < _OF_TENANT
        ]
        return min(may_begin, key=lambda one: under_way[one.tenant], default=None)


def _too_many(what: str) -> TooMany:
    return TooMany(f"other uploads of this user {what}; send it again later", retry_after=_AGAIN)
