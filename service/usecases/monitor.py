"""The queue, running work and circuit breakers: what operators and their monitors ask often.

Apart from `inspect`, so that `precis status` loads neither SQLAlchemy nor what writes summaries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.storage import jobs
from service.storage.jobs import Alive, Breaker, Job, QueueCounts, Reads

_MOST_LEASES = 100  # shown


@dataclass(frozen=True, slots=True)
class Status:
    """The queue in numbers, who works on what, the summarisers' breakers, and who lives.

    `stalled` says that work is due and no worker lives to do it. `encryption_keys` are the ids of
    the keys that stored texts may be sealed with: none, one, or more until a rotation is done.
    """

    queue: QueueCounts
    leases: list[Job]
    endpoints: list[Breaker]
    alive: list[Alive]
    stalled: bool
    encryption_keys: list[int]

    @property
    def idle(self) -> bool:
        """Whether nothing is due, worked on or put off."""
        return not (self.queue.working or self.queue.due or self.queue.waiting)


async def status(reads: Reads, tenant: int | None) -> Status:
    """How the work stands; of all tenants for None. Endpoints and processes are the fleet's."""
    queue = await jobs.counts(reads, tenant)
    alive = await jobs.alive(reads)
    works = any(one.role == "worker" for one in alive)
    return Status(
        queue,
        await jobs.page(reads, tenant, ["working"], limit=_MOST_LEASES),
        await jobs.breakers(reads),
        alive,
        stalled=queue.due > 0 and not works,
        encryption_keys=await jobs.encryption_keys(reads),
    )


async def list_jobs(
    reads: Reads,
    tenant: int,
    states: Sequence[jobs.State] = jobs.STATES,
    *,
    after: int = 0,
    limit: int,
) -> list[Job]:
    """A page of a tenant's work in these states; `after` is the last job's id of the one before."""
    return await jobs.page(reads, tenant, states, after=after, limit=limit)
