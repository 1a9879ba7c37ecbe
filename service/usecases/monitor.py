"""The queue, running work and circuit breakers: what operators and their monitors ask often.

Apart from `inspect`, so that `precis status` loads neither SQLAlchemy nor what writes summaries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.storage import jobs
from service.storage.jobs import Breaker, Job, QueueCounts, Reads

_MOST_LEASES = 100  # shown


@dataclass(frozen=True, slots=True)
class Status:
    """The queue in numbers, who works on what, and the breakers of the summarisers."""

    queue: QueueCounts
    leases: list[Job]
    endpoints: list[Breaker]

    @property
    def idle(self) -> bool:
        """Whether nothing is due, worked on or put off."""
        return not (self.queue.working or self.queue.due or self.queue.waiting)


async def status(reads: Reads, tenant: int | None) -> Status:
    """How the work stands; of all tenants for None. Endpoints are the whole fleet's."""
    return Status(
        await jobs.counts(reads, tenant),
        await jobs.page(reads, tenant, ["working"], limit=_MOST_LEASES),
        await jobs.breakers(reads),
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
