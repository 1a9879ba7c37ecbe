"""Puts the wishes of a chat's user into its deepest summary as it is, without a call.

Else what a user wants would wait until the chat has grown by another summary.
"""

import structlog

from service.planning import Checkpoint
from service.storage import checkpoints
from service.storage.checkpoints import Fresh
from service.summarising import compose, message
from service.summarising.compose import Covered
from service.summarising.kept.wishes import wished
from service.summarising.memory import Memory
from service.usecases.compress import chunks, round
from service.usecases.compress.round import Begun, Round

log = structlog.get_logger(__name__)


async def renewed(begun: Begun) -> Begun:
    """The round after its deepest checkpoint was published once more, if the wishes are others now.

    Raises:
        Refused: the chat is not as it was planned on any more.
    """
    this, made = begun.round, begun.made
    # What is degraded is written again anyway, from what it grew from.
    if made is None or this.redoes or this.claim.lease.fallback:
        return begun
    memory = await chunks.memory_of(this, made)
    changed = wished(memory, this.claim.lease.wishes)
    if changed is memory:
        return begun
    await _publish(this, made, changed)
    log.info("summary.renewed", chat=this.claim.lease.chat_id, messages=made.messages)
    return await round.begin(this.claim)


async def _publish(this: Round, made: Checkpoint, memory: Memory) -> None:
    """Publishes a checkpoint with another memory in the place of `made`."""
    until = this.rows[made.messages - 1]
    covered = Covered(until.depth, until.path_tokens, until.sent_at)
    texts = this.claim.context.texts
    rendered, left_out = await texts.run(compose.rendered, memory, this.policy, covered)
    async with this.engine.begin() as connection:
        found = await checkpoints.summary(connection, this.chat, made.id)
        if found is None:
            raise chunks.changed()
        before, _ = found
        fresh = Fresh(
            # Alone: those that it grew from do not have the wishes, and would serve while the
            # request is small enough for them.
            parent=0,
            until=until,
            kind=before.kind,
            memory=memory,
            rendered=rendered,
            tokens=message.size(rendered),
            summariser=before.summariser,
            prompt_version=before.prompt_version,
            verdict=before.verdict | {"left_out": left_out},
            replaces=[made.id],
        )
        published = await checkpoints.publish(connection, this.claim.lease, fresh)
    if published is None:
        raise chunks.changed()
