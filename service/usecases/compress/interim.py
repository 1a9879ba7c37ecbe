"""Interim summaries: made by code in a moment, while the next request is too large.

One serves until the summariser has read the same messages, and no summary grows from it.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog
from sqlalchemy.exc import SQLAlchemyError

from service import metrics
from service.errors import PrecisError, trace
from service.planning.plan import Checkpoint, Chunk, Plan, plan
from service.storage import publishing, work
from service.storage.tables import INTERIM
from service.summarising.memory import Memory
from service.usecases.compress import chunks, round
from service.usecases.compress.chunks import Publication
from service.usecases.compress.round import Round

_LOOK = 0.2  # seconds between two looks at a chat that goes on while its summariser is asked

log = structlog.get_logger(__name__)


async def serve_at_once(this: Round) -> Round:
    """Publishes an interim summary when the chat's next request is too large.

    It goes on from the interim one before, if there is one, so that each message is read once. It
    is a branch of the checkpoint that the summariser goes on from. An interim one that is deeper
    than that and grew from an older one lacks what the summariser has written since: another is
    made at once from what the summariser wrote, whatever the request's size, and takes its place.

    Returns:
        The round, with the new one among those whose place will be taken.

    Raises:
        Refused: the chat is not as it was planned on any more.
    """
    outdated = _outdated(this)
    plan = await _plan(this, outdated)
    if not plan.chunks:
        return this
    memory = await chunks.memory_of(this, plan.reuse)
    publication = await _write(this, plan.chunks, memory)
    if publication.candidate.no_gain:
        return this
    parent = this.made.id if this.made else 0
    interim = await _publish(this, plan.chunks[-1], parent, publication, outdated)
    return replace(this, instead_of=[*this.instead_of, interim], has_served=True)


@asynccontextmanager
async def served_meanwhile(this: Round) -> AsyncIterator[None]:
    """Gives the chat interim summaries while the round goes on.

    A call of the summariser may take as long as many turns of the chat.
    """
    serving = asyncio.create_task(_serve_meanwhile(this))
    try:
        yield
    finally:
        serving.cancel()
        (ended,) = await asyncio.gather(serving, return_exceptions=True)
        if isinstance(ended, Exception):
            log.error(
                "compress.not_served_meanwhile",
                chat=this.claim.lease.chat_id,
                exception=trace(ended),
            )


async def _serve_meanwhile(this: Round) -> None:
    """Makes an interim summary whenever messages came and the next request is too large.

    The round goes on whatever happens here, and the one after it will see to the chat in any case.
    """
    claim = this.claim
    while this.summariser:  # code alone is done in a moment
        await asyncio.sleep(_LOOK)
        try:
            async with claim.engine.connect() as connection:
                grown = await work.grown(connection, claim.lease)
            if grown is not None:
                claim = replace(claim, lease=grown)
                await serve_at_once(await round.begin(claim))
        except (PrecisError, SQLAlchemyError, OSError) as error:
            kind = type(error).__name__
            log.warning("compress.not_served_meanwhile", chat=this.claim.lease.chat_id, error=kind)


def _outdated(this: Round) -> Sequence[Checkpoint]:
    """The interim ones that serve in place of what the summariser has published since."""
    deepest = this.made
    if deepest is None:
        return ()
    # By what it grew from: its own id says only which of two calls ended first.
    return [
        one
        for one in this.instead_of
        if one.parent < deepest.id and one.messages >= deepest.messages
    ]


async def _plan(this: Round, outdated: Sequence[Checkpoint]) -> Plan:
    """The reading up to the tail, from the deepest checkpoint that is not outdated."""
    usable = [one for one in [*this.instead_of, *this.settled] if one not in outdated]
    policy = this.policy.at_once
    if outdated:
        policy = replace(policy, prepare_at=0, step_tokens=1)
    return await asyncio.to_thread(plan, this.path, usable, policy)


async def _write(this: Round, planned: Sequence[Chunk], memory: Memory) -> Publication:
    """What is read of all chunks, in the end; those before the last are not published."""
    for chunk in planned:
        publication = await chunks.write_by_rule(this, chunk, memory, INTERIM)
        memory = publication.candidate.memory
    return publication


async def _publish(
    this: Round, last: Chunk, parent: int, publication: Publication, outdated: Sequence[Checkpoint]
) -> Checkpoint:
    until = this.rows[(last.covers or 0) - 1]
    fresh = await chunks.fresh(this, until, parent, publication)
    # Those too that are deeper than this one, because the tail was shorter.
    replaced = {*fresh.replaces, *(one.id for one in outdated)}
    fresh = replace(fresh, replaces=replaced)
    async with this.engine.begin() as connection:
        published = await publishing.publish(connection, this.claim.lease, fresh)
    if not published:
        raise chunks.changed()
    metrics.PUBLISHED.labels(INTERIM).inc()
    chunks.log_published(this, fresh, publication)
    size = until.path_tokens, fresh.tokens
    return Checkpoint(published, until.message_id, until.depth, *size, parent, fresh.window)
