"""The queue, breakers and schema of the whole fleet, of all tenants, for metrics.

No statement takes longer when more messages are stored.
"""

from typing import Final

from service.metrics import QueueFigures
from service.storage import jobs
from service.storage.database import Reads, find_newest_revision

# An endpoint that nobody asks any more stays half-open for ever: its last failure is long ago.
_BREAKERS: Final = f"""
select {jobs.BREAKER_STATE} as state, count(*) from endpoints
where open_until is null or changed_at > now() - interval '1 hour' group by 1
"""
_FOR_MODELS: Final = "select count(*) from prompts where reply is null"


async def read_queue_figures(reads: Reads) -> QueueFigures:
    """Reads the figures; raises the driver's own errors when the database does not answer."""
    counts = await jobs.count_jobs(reads, None)
    for_models: int = await reads.fetchval(_FOR_MODELS)
    rows = await reads.fetch(_BREAKERS)
    revision: str = await reads.fetchval("select version_num from alembic_version")
    states: dict[str, int] = {
        "working": counts.working,
        "due": counts.due,
        "waiting": counts.waiting,
        "dead": counts.dead,
        "waiting_for_model": for_models,
    }
    breakers = {"closed": 0, "open": 0, "half-open": 0}
    breakers |= {row["state"]: row["count"] for row in rows}
    at_head = revision == find_newest_revision()
    return QueueFigures(states, counts.oldest_due_seconds, breakers, at_head)
