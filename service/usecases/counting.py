"""Counts what requests were answered and what became of them, and stores the sums now and then.

No request waits for that: a process adds up in memory, and writes every few seconds and when it
ends. What was counted since is lost when it is killed.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from service import metrics
from service.errors import trace
from service.storage import outage, sums
from service.storage.sums import ChatShare, Share
from service.storage.worth import OUTCOMES, Reported

EVERY: Final = 5.0
"""Seconds between two writes."""
_PATIENCE: Final = 5.0  # seconds that a write may take
_MOST: Final = 50_000  # shares that are kept while the database takes none
_AWAY: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, *outage.AWAY)

log = structlog.get_logger(__name__)


class Counting:
    """What this process has counted and not stored yet. Only for the event loop."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._new: defaultdict[Share, sums.Counts] = defaultdict(Counter)
        self._late: dict[ChatShare, sums.Counts] = {}
        # Chats whose newest upload was refused, since the last write and since the one before it.
        self._refused: set[Share] = set()
        self._refused_before: set[Share] = set()
        self._one_by_one = asyncio.Lock()

    def answered(self, share: Share, answer: str, not_sent: int) -> None:
        """Counts an answer to a request, and the tokens that it kept out of it."""
        counts = self._new[share]
        counts[answer] += 1
        counts["tokens_not_sent"] += not_sent

    def reported(self, share: Share, outcomes: Mapping[Reported, int]) -> None:
        """Counts what became of requests, as a filter reports it."""
        counts = self._new[share]
        for name, number in outcomes.items():
            counts[name] += number
            if name in OUTCOMES:
                metrics.OUTCOMES.labels(name).inc(number)
            else:
                metrics.AWAY.inc(number)

    def uploaded(self, tenant: int, chat: str, *, refused: bool) -> None:
        """Counts an upload that was refused, unless a later one of the chat is accepted soon.

        A filter tries again at once, with fewer messages or a shorter one.
        """
        share = Share(tenant, chat, "", "")  # a body that is too large is not read
        self._refused.discard(share)
        self._refused_before.discard(share)
        if refused:
            self._refused.add(share)

    async def store(self, *, wait: bool = False) -> None:
        """Stores what was counted. When that fails, it is kept for the next time.

        `wait` for chats that are locked; else they get their share the next time.
        """
        async with self._one_by_one:
            for share in self._refused_before:
                self._new[share]["refused"] += 1
            self._refused_before, self._refused = self._refused, set()
            if self._new or self._late:
                await self._store(wait=wait)

    async def _store(self, *, wait: bool) -> None:
        new, self._new = self._new, defaultdict(Counter)
        try:
            async with asyncio.timeout(_PATIENCE), self._engine.begin() as connection:
                left = await sums.add(connection, new, self._late, wait=wait)
        except BaseException:
            self._keep(new)
            raise
        self._late = left

    def _keep(self, new: Mapping[Share, sums.Counts]) -> None:
        for share, counts in new.items():
            self._new[share].update(counts)
        if len(self._new) > _MOST:
            log.error("sums.lost", shares=len(self._new))
            self._new.clear()
            self._late.clear()


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
        await _store(this, wait=True)


async def _go_on(this: Counting, ending: asyncio.Event) -> None:
    while not ending.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), EVERY)
        await _store(this, wait=False)


async def _store(this: Counting, *, wait: bool) -> None:
    try:
        await this.store(wait=wait)
    except _AWAY as error:  # the next one may get through
        log.warning("sums.not_stored", error=type(error).__name__)
    except Exception as error:  # a mistake of ours must not end the counting
        log.error("sums.not_stored", exception=trace(error))
