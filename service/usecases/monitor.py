"""The queue, running work and circuit breakers: what operators and their monitors ask often."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.names import STATES, State
from service.settings import Settings
from service.storage import jobs
from service.storage.database import Reads
from service.storage.jobs import Alive, Breaker, Job, QueueCounts, SealedRows, Stored
from service.usecases import worth
from service.usecases.advice import Advice, advice
from service.usecases.worth import Worth

_MOST_LEASES = 100  # shown


@dataclass(frozen=True, slots=True)
class Work:
    """The queue in numbers and who works on what; `stalled` as in `Status`."""

    queue: QueueCounts
    leases: list[Job]
    stalled: bool


@dataclass(frozen=True, slots=True)
class Status:
    """The queue in numbers, who works on what, breakers, who lives, and what it is all worth.

    `stalled` says that work is due and no worker lives to do it; `advice` is what to look at.
    `encryption_keys` are the ids of the keys that stored texts may be sealed with: none, one, or
    more until a rotation is done. `sealed` says about how many rows each of them seals; it is empty
    where there never was a key.
    """

    queue: QueueCounts
    leases: list[Job]
    endpoints: list[Breaker]
    alive: list[Alive]
    stalled: bool
    worth: Worth
    stored: Stored
    advice: list[Advice]
    encryption_keys: list[int]
    sealed: list[SealedRows]


async def status(reads: Reads, tenant: int, settings: Settings) -> Status:
    """How a tenant's work stands. Endpoints and processes are the fleet's."""
    queue = await jobs.counts(reads, tenant)
    alive = await jobs.alive(reads)
    endpoints = await jobs.breakers(reads)
    figures = await worth.overview(reads, tenant, settings)
    stored = await jobs.stored(reads, tenant)
    filters = await jobs.filters(reads, tenant)
    stalled = _is_stalled(queue, alive)
    keys = await jobs.encryption_keys(reads)
    return Status(
        queue,
        await jobs.page(reads, tenant, ["working"], limit=_MOST_LEASES),
        endpoints,
        alive,
        stalled,
        figures,
        stored,
        advice(queue, stored, endpoints, alive, figures.today, filters, stalled=stalled),
        keys,
        await jobs.sealed_rows(reads, tenant) if keys else [],
    )


async def work(reads: Reads, tenant: int) -> Work:
    """Of `status` what a list of jobs needs: without what counts chats and sums."""
    queue = await jobs.counts(reads, tenant)
    leases = await jobs.page(reads, tenant, ["working"], limit=_MOST_LEASES)
    return Work(queue, leases, _is_stalled(queue, await jobs.alive(reads)))


def _is_stalled(queue: QueueCounts, alive: Sequence[Alive]) -> bool:
    return queue.due > 0 and not any(one.role == "worker" for one in alive)


async def list_jobs(
    reads: Reads,
    tenant: int,
    states: Sequence[State] = STATES,
    *,
    after: int = 0,
    limit: int,
) -> list[Job]:
    """A page of a tenant's work in these states; `after` is the last job's id of the one before."""
    return await jobs.page(reads, tenant, states, after=after, limit=limit)
