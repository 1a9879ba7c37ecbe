"""Counts what requests saved and what became of them, and stores the sums now and then.

So too when keys were used last, and by which version of the filter.

No request waits for that: a process adds up in memory, and writes every few seconds and when it
ends. What was counted since is lost when it is killed.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from service import metrics
from service.errors import trace
from service.names import RequestOutcome
from service.storage import keys, outage, sums
from service.storage.keys import Use
from service.storage.sums import Counts, Share

EVERY: Final = 5.0
"""Seconds between two writes."""
_PATIENCE: Final = 5.0  # seconds that a write may take
_MOST: Final = 50_000  # shares that are kept while the database takes none

log = structlog.get_logger(__name__)


class Counting:
    """What this process has counted and not stored yet. Only for the event loop."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._counted: defaultdict[Share, Counts] = defaultdict(Counter)
        self._uses: dict[int, Use] = {}
        self._one_by_one = asyncio.Lock()

    def not_sent(self, share: Share, tokens: int) -> None:
        """Counts the tokens that a summary keeps out of a request."""
        if tokens:
            self._counted[share]["tokens_not_sent"] += tokens

    def turn_ended(self, share: Share, outcome: RequestOutcome) -> None:
        """Counts what became of the requests of a turn."""
        metrics.OUTCOMES.labels(outcome).inc()
        if outcome == "truncated":
            self._counted[share]["truncated"] += 1

    def used(self, key: int, version: str) -> None:
        """A key was used just now, by a filter of this `version` or by another client."""
        self._uses[key] = Use(time.time(), version)

    async def store(self) -> None:
        """Stores what was counted. When that fails, it is kept for the next time."""
        async with self._one_by_one:
            by_share, self._counted = self._counted, defaultdict(Counter)
            uses, self._uses = self._uses, {}
            if not (by_share or uses):
                return
            try:
                async with asyncio.timeout(_PATIENCE), self._engine.begin() as connection:
                    if by_share:
                        await sums.add(connection, by_share)
                    await keys.note_uses(connection, uses)
            except BaseException:
                self._keep(by_share, uses)
                raise

    def _keep(self, by_share: Mapping[Share, Counts], uses: dict[int, Use]) -> None:
        self._uses = uses | self._uses
        for share, counts in by_share.items():
            self._counted[share].update(counts)
        if len(self._counted) > _MOST:
            log.error("sums.lost", shares=len(self._counted))
            self._counted.clear()


@asynccontextmanager
async def counting(engine: AsyncEngine) -> AsyncIterator[Counting]:
    """Stores what is counted every `EVERY` seconds, and at the end."""
    this, ending = Counting(engine), asyncio.Event()
    storing = asyncio.create_task(_go_on(this, ending))
    try:
        yield this
    finally:
        # Not cancelled: nobody would know whether a write that was cut off had been stored.
        ending.set()
        await storing
        await _store(this)  # what was counted while it stored


async def _go_on(this: Counting, ending: asyncio.Event) -> None:
    while not ending.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), EVERY)
        await _store(this)


async def _store(this: Counting) -> None:
    try:
        await this.store()
    except outage.FAILURES as error:  # the next one may get through
        log.warning("sums.not_stored", error=type(error).__name__)
    except Exception as error:  # a mistake of ours must not end the counting
        log.error("sums.not_stored", exception=trace(error))
