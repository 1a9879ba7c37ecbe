"""One round of work: plan, and for each chunk of the plan write and publish.

Whatever ends a turn is published on its own, so a crash loses one call, or those of one long turn.
A chat with many chunks goes back to the end of the queue between two turns when others wait.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.planning.plan import Chunk, Plan, plan, plan_by_code
from service.storage import chats, work
from service.summarising.memory import Memory
from service.usecases.compress import chunks, interim, round
from service.usecases.compress.chunks import Publication
from service.usecases.compress.lease import Claim
from service.usecases.compress.round import Round


@dataclass(frozen=True, slots=True)
class Done:
    """What a round did.

    Attributes:
        nothing: why there was nothing to do, or nothing worth publishing; empty otherwise.
        complete: whether nothing is left to do.
        has_served: whether code made an interim summary.
        waits: whether the summariser could not be asked, so that the chat is still due.
    """

    nothing: str = ""
    complete: bool = True
    has_served: bool = False
    waits: bool = False


async def work_round(claim: Claim) -> Done:
    """One round of work on each branch that is due, the newest first.

    Raises:
        Refused: the chat is not as it was planned on any more.
        Gone: a text is not kept any more.
        SummariserError: the summariser failed.
        TextTooHard: a text took too long or too much memory.
        TextWorkFailed: work on a text raised an error; so may whatever else is our own code.
        TextProcessAway: no process for texts could be started.
    """
    unwanted = _unwanted(claim)
    if unwanted:
        return Done(unwanted)
    newest = await _begun(claim)
    lease = claim.lease
    others = [replace(claim, lease=replace(lease, leaf=leaf)) for leaf in lease.other_leaves]
    # Code serves all of them before a call is made for one.
    has_served = newest.has_served
    for other in others:
        has_served |= (await _begun(other)).has_served
    if lease.at_once:
        return Done(waits=True, has_served=has_served)
    done = await _summarise(newest, others)
    return replace(done, has_served=has_served)


async def _summarise(newest: Round, others: Sequence[Claim]) -> Done:
    """Works on one branch after the other, until one is done and another chat or branch waits."""
    done = await _work_on(newest)
    for other in others:
        if not done.complete:
            break
        if not done.nothing and (await _has_grown(newest) or await _gives_way(newest)):
            return Done(complete=False)
        # Begun again, because it may share what was published for those before it.
        this = await _work_on(await _begun(other))
        done = Done(done.nothing and this.nothing, this.complete)
    return done


async def _work_on(this: Round) -> Done:
    plan = await _plan(this)
    if not plan.chunks:
        return Done(plan.reason)
    async with interim.served_meanwhile(this):
        return await _carry_out(this, plan)


async def _begun(claim: Claim) -> Round:
    """The round, after what needs no call: an interim summary."""
    this = await round.begin(claim)
    # What is given by its size needs no call either.
    if this.summariser and (claim.lease.at_once or not claim.why_by_size):
        return await interim.serve_at_once(this)
    return this


def _unwanted(claim: Claim) -> str:
    """Why no summary of this chat is wanted; empty when one is."""
    if claim.lease.compactor == chats.COMPACTS_ITSELF:
        return "Open WebUI compacts this chat itself"
    return "its user wants this chat left alone" if claim.lease.left_alone else ""


async def _plan(this: Round) -> Plan:
    if this.summariser:
        return await asyncio.to_thread(plan, this.confirmed_path, this.settled, this.policy)
    return await asyncio.to_thread(plan_by_code, this.path, this.settled, this.policy)


async def _carry_out(this: Round, plan: Plan) -> Done:
    """Makes the plan's calls in order, until another chat waits at the end of a turn."""
    parent = plan.reuse.id if plan.reuse else 0
    memory = await chunks.memory_of(this, plan.reuse)
    no_gain = ""
    for number, chunk in enumerate(plan.chunks):
        publication = await _write(this, chunk, memory, first=number == 0)
        memory = publication.candidate.memory
        no_gain = publication.candidate.no_gain if chunk.covers else ""
        if not chunk.covers or no_gain:
            # The next chunk's summary stands for this one as well.
            await chunks.count_unpublished(this, publication)
            continue
        parent = await chunks.publish(this, chunk.covers, parent, publication)
        if chunk is not plan.chunks[-1] and await _gives_way(this):
            return Done(complete=False)
    # Without a gain, another round would end in the same way: new messages make work due.
    return Done(no_gain, plan.complete or bool(no_gain))


async def _write(this: Round, chunk: Chunk, memory: Memory, *, first: bool) -> Publication:
    # Only the first: of a text further on it is not known that anything fails on it.
    if first and this.claim.why_by_size:
        return await chunks.write_by_rule(this, chunk, memory, "degraded")
    return await chunks.write(this, chunk, memory)


async def _has_grown(this: Round) -> bool:
    """Whether a message came meanwhile whose branch is over the limit, and is to be next."""
    async with this.engine.connect() as connection:
        return await work.grown(connection, this.claim.lease) is not None


async def _gives_way(this: Round) -> bool:
    """Whether the round ends early, because another chat waits."""
    # The other chat may be another tenant's.
    async with this.engine.connect() as connection:
        return await work.waiting(connection, 1, besides=this.chat) > 0
