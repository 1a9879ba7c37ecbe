"""What monitors want to know of the whole fleet, of all tenants: its queue, breakers and schema.

Plain SQL on one of the connections for reads; nothing is changed. None of it grows with the
messages that are stored.
"""

from typing import Final

from service.metrics import QueueFigures
from service.storage import jobs
from service.storage.database import Reads, newest

# An endpoint that is asked no more stays half-open for ever; its last failure is long ago.
_BREAKERS: Final = f"""
select {jobs.BREAKER_STATE} as state, count(*) from endpoints
where open_until is null or changed_at > now() - interval '1 hour' group by 1
"""
_FOR_MODELS: Final = "select count(*) from prompts where reply is null"


async def queue(reads: Reads) -> QueueFigures:
    """The figures of the database. Raises what the driver raises when it does not answer."""
    counts = await jobs.counts(reads, None)
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
    at_head = revision == newest()
    return QueueFigures(states, counts.oldest_due_seconds, breakers, at_head)
