"""The one use case of workers: claim the chat whose turn it is, plan, summarise, judge, publish.

Data flows one way: a worker's `context`; a `lease` on a chat, for code's work or the model's;
`rounds`, which do either; and the `outcomes`.
"""

from dataclasses import dataclass

from service import request_ids
from service.usecases.compress import lease, outcomes
from service.usecases.compress.context import WorkerContext

__all__ = ["Worked", "WorkerContext", "compress"]


@dataclass(frozen=True, slots=True)
class Worked:
    """A chat was worked on; it is due again in so many seconds, or not at all."""

    again: float | None


async def compress(context: WorkerContext) -> Worked | None:
    """Does the work of the chat whose turn it is.

    Returns:
        None when there is no work but for a summariser that has enough to do.
    """
    claim = await lease.claim(context)
    if claim is None:
        return None
    with request_ids.within(claim.request_id):
        async with lease.kept(claim):
            return Worked(await outcomes.attempt(claim))
