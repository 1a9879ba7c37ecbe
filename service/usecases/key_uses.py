"""Notes when keys were used last, and by which version of the filter.

No request waits for that: a process keeps it in memory, and writes it once a minute and when it
ends. What was noted since is lost when it is killed.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from service.storage import keys, outage
from service.storage.keys import Use

EVERY: Final = 60.0
"""Seconds between two writes."""
_PATIENCE: Final = 5.0  # seconds that a write may take

log = structlog.get_logger(__name__)


class KeyUses:
    """What this process has noted and not stored yet. Only for the event loop."""

    def __init__(self) -> None:
        self._new: dict[int, Use] = {}

    def note(self, key: int, version: str) -> None:
        """A key was used just now, by a filter of this `version` or by another client."""
        self._new[key] = Use(time.time(), version)

    async def store(self, engine: AsyncEngine) -> None:
        """Stores what was noted. When that fails, it is kept for the next time."""
        new, self._new = self._new, {}
        if not new:
            return
        try:
            async with asyncio.timeout(_PATIENCE), engine.begin() as connection:
                await keys.note_uses(connection, new)
        except outage.FAILURES as error:
            self._new = new | self._new
            log.warning("keys.uses_not_stored", error=type(error).__name__)


@asynccontextmanager
async def noting(engine: AsyncEngine) -> AsyncIterator[KeyUses]:
    """Stores what is noted every `EVERY` seconds, and at the end."""
    this, ending = KeyUses(), asyncio.Event()
    storing = asyncio.create_task(_go_on(this, engine, ending))
    try:
        yield this
    finally:
        ending.set()
        await storing


async def _go_on(this: KeyUses, engine: AsyncEngine, ending: asyncio.Event) -> None:
    while not ending.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), EVERY)
        await this.store(engine)
