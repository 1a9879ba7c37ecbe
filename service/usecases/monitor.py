"""The queue, running work and circuit breakers: what operators and their monitors ask often."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service.names import State
from service.settings import Settings
from service.storage import jobs
from service.storage.database import Reads
from service.storage.jobs import Breaker, ChatCounts, Job, QueueCounts
from service.usecases import worth
from service.usecases.worth import Worth

_MOST_LEASES: Final = 100  # shown
_LONG: Final = 120
"""Seconds that due work may wait before somebody should look: as in the alert rules."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs; `next` is the `cursor` for the next page, null on the last one."""

    jobs: list[Job]
    next: int | None


@dataclass(frozen=True, slots=True)
class Work:
    """The queue in numbers and who works on what; `stalled` as in `Status`."""

    queue: QueueCounts
    leases: list[Job]
    stalled: bool


@dataclass(frozen=True, slots=True)
class Status:
    """The queue in numbers, who works on what, breakers, and the worth of the last 30 days.

    `stalled` says that work is due for two minutes and nobody works; `warnings` are what to look
    at. `encryption_keys` are the ids of the keys that stored texts may be sealed with: none, one,
    or more until a rotation is done.
    """

    queue: QueueCounts
    leases: list[Job]
    endpoints: list[Breaker]
    stalled: bool
    worth: Worth
    stored: ChatCounts
    warnings: list[str]
    encryption_keys: list[int]


async def status(reads: Reads, tenant: int, settings: Settings, warnings: Sequence[str]) -> Status:
    """How a tenant's work stands. Endpoints are the fleet's.

    `warnings` are what this process has found amiss with its settings and its summariser.
    """
    now = await work(reads, tenant)
    month = await worth.read(reads, settings, tenant)
    keys = await jobs.encryption_keys(reads)
    missing = set(keys) - {key.id for key in settings.sealing_keys.keys}
    return Status(
        now.queue,
        now.leases,
        await jobs.breakers(reads),
        now.stalled,
        month,
        await jobs.stored(reads, tenant),
        [*_warnings(now.queue, month, missing), *warnings],
        keys,
    )


async def work(reads: Reads, tenant: int) -> Work:
    """Of `status` what a list of jobs needs: without what counts chats and sums."""
    queue = await jobs.counts(reads, tenant)
    leases = await jobs.page(reads, tenant, ["working"], limit=_MOST_LEASES)
    return Work(queue, leases, queue.oldest_due_seconds > _LONG and not queue.working)


async def list_jobs(
    reads: Reads, tenant: int, states: Sequence[State], limit: int, cursor: int
) -> JobPage:
    """A page of a tenant's work in these states."""
    # One more than the page holds shows whether there is a next page.
    rows = await jobs.page(reads, tenant, states, after=cursor, limit=limit + 1)
    page = rows[:limit]
    return JobPage(page, page[-1].id if len(rows) > limit else None)


def _warnings(queue: QueueCounts, month: Worth, missing: set[int]) -> Iterator[str]:
    """What no other figure of the status says as plainly."""
    if missing:
        keys = ", ".join(map(str, sorted(missing)))
        yield (
            f"Texts are sealed with key {keys}, which PRECIS_ENCRYPTION_KEYS of this process lacks:"
            " requests that need them are refused"
        )
    if queue.oldest_due_seconds > _LONG:
        yield (
            f"Work has been due for {queue.oldest_due_seconds:.0f} s: start `precis worker`, or"
            " more of them, or see whether the summariser is slow"
        )
    today = [part.figures for part in month.parts if part.name == month.last_day.isoformat()]
    if today and today[0].truncated:
        yield (
            f"{today[0].truncated:,} turns of today lost text without any summary of it:"
            " `precis stats --by chat` names the chats"
        )
