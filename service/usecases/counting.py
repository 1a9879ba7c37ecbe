"""Counts what requests saved and what became of them, and which keys were used.

No request waits for the database: a process adds up in memory, and writes every few seconds and
when it ends. A process that is killed loses what it has counted since its last write.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from service import metrics
from service.errors import format_trace
from service.names import RequestOutcome
from service.storage import database, keys, runs
from service.storage.keys import KeyUse
from service.storage.runs import UsageKey

EVERY: Final = 5.0
"""Seconds between two writes."""
_PATIENCE: Final = 5.0  # seconds that a write may take

log = structlog.get_logger(__name__)


class Counting:
    """The counts of this process that are not stored yet. Only for the event loop."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._counted: defaultdict[UsageKey, Counter[str]] = defaultdict(Counter)
        self._uses: dict[int, KeyUse] = {}
        self._one_by_one = asyncio.Lock()

    def count_not_sent(self, key: UsageKey, tokens: int) -> None:
        """Counts the tokens that a summary kept out of a request."""
        if tokens:
            self._counted[key]["tokens_not_sent"] += tokens

    def count_turn(self, key: UsageKey, outcome: RequestOutcome) -> None:
        """Counts what became of the requests of a turn."""
        metrics.OUTCOMES.labels(outcome).inc()
        if outcome == "truncated":
            self._counted[key]["truncated"] += 1

    def note_use(self, key: int, version: str) -> None:
        """Notes that a filter of this `version`, or another client, used a key just now."""
        self._uses[key] = KeyUse(time.time(), version)

    async def store(self) -> None:
        """Stores the counts. When that fails, it keeps them for the next time."""
        async with self._one_by_one:
            counted, self._counted = self._counted, defaultdict(Counter)
            uses, self._uses = self._uses, {}
            if not (counted or uses):
                return
            try:
                async with asyncio.timeout(_PATIENCE), self._engine.begin() as connection:
                    if counted:
                        await runs.add_sums(connection, counted)
                    await keys.note_uses(connection, uses)
            except BaseException:
                self._uses = uses | self._uses
                for key, counts in counted.items():
                    self._counted[key].update(counts)
                raise


@asynccontextmanager
async def open_counting(engine: AsyncEngine) -> AsyncIterator[Counting]:
    """Stores what is counted every `EVERY` seconds, and at the end."""
    counts, ending = Counting(engine), asyncio.Event()
    storing = asyncio.create_task(_store_until(ending, counts))
    try:
        yield counts
    finally:
        # Not cancelled: nobody would know whether a write that was cut off had been stored.
        ending.set()
        await storing
        await _store_quietly(counts)  # what was counted during the last write


async def _store_until(ending: asyncio.Event, counts: Counting) -> None:
    while not ending.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), EVERY)
        await _store_quietly(counts)


async def _store_quietly(counts: Counting) -> None:
    try:
        await counts.store()
    except database.FAILURES as error:  # the next write may succeed
        log.warning("sums.not_stored", error=type(error).__name__)
    except Exception as error:  # our own mistake must not end the counting
        log.error("sums.not_stored", exception=format_trace(error))
