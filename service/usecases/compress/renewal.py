"""Puts the wishes of a chat's user into its deepest summaries as they are, without a call.

Else what a user wants would wait until the chat has grown by another summary.
"""

import structlog

from service.planning import Checkpoint
from service.storage import checkpoints
from service.storage.checkpoints import Fresh
from service.summarising import compose, message
from service.summarising.compose import Covered
from service.summarising.kept.wishes import wished
from service.usecases.compress import chunks, round
from service.usecases.compress.round import Begun, Round

log = structlog.get_logger(__name__)


async def renewed(begun: Begun) -> Begun:
    """The round after its summaries were published once more, if the wishes are others now.

    These are the deepest checkpoint that others grow from, and the interim ones below it.

    Raises:
        Refused: the chat is not as it was planned on any more.
    """
    this, made = begun.round, begun.made
    # What is degraded is written again anyway, from what it grew from.
    if this.redoes or this.claim.lease.fallback:
        return begun
    # Alone: those that it grew from do not have the wishes, and would serve while the request is
    # small enough for them.
    number = await _renew(this, made, parent=0) if made else None
    parent = number or (made.id if made else 0)
    others = [await _renew(this, one, parent) for one in this.instead_of]
    if not any((number, *others)):
        return begun
    log.info("summary.renewed", chat=this.claim.lease.chat_id)
    return await round.begin(this.claim)


async def _renew(this: Round, made: Checkpoint, parent: int) -> int | None:
    """Publishes a checkpoint with the present wishes in the place of `made`.

    Returns:
        The id of the new one; None when `made` has these wishes, or says nothing without others.
    """
    before = await chunks.memory_of(this, made)
    memory = wished(before, this.claim.lease.wishes)
    if memory is before:
        return None
    until = this.rows[made.messages - 1]
    covered = Covered(until.depth, until.path_tokens, until.sent_at)
    texts = this.claim.context.texts
    rendered, left_out = await texts.run(compose.rendered, memory, this.policy, covered)
    if rendered.is_empty:
        return None
    size = message.size(rendered)
    async with this.engine.begin() as connection:
        found = await checkpoints.summary(connection, this.chat, made.id)
        if found is None:
            raise chunks.changed()
        stored, _ = found
        fresh = Fresh(
            parent=parent,
            until=until,
            kind=stored.kind,
            memory=memory,
            rendered=rendered,
            tokens=size,
            summariser=stored.summariser,
            prompt_version=stored.prompt_version,
            verdict=stored.verdict | {"left_out": left_out},
            replaces=[made.id],
        )
        published = await checkpoints.publish(connection, this.claim.lease, fresh)
    if published is None:
        raise chunks.changed()
    return published
