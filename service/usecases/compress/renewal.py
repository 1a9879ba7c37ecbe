"""Puts the wishes of a chat's user into its deepest summary as it is, without a call.

For a round that has nothing to read: else what a user wants would wait until the chat has grown.
"""

from service.planning import Checkpoint
from service.storage import checkpoints
from service.storage.checkpoints import Fresh
from service.summarising import compose, message
from service.summarising.compose import Covered
from service.summarising.kept.wishes import wished
from service.usecases.compress import chunks
from service.usecases.compress.round import Round


async def renew(this: Round, made: Checkpoint) -> int | None:
    """Publishes the deepest checkpoint of the path once more, if the wishes are others now.

    Returns:
        The id of the new one, which serves in its place; None when nothing has changed.

    Raises:
        Refused: the chat is not as it was planned on any more.
    """
    # One that is degraded because of the fallback is soon written again, if it stays the only one.
    if this.claim.lease.fallback:
        return None
    memory = await chunks.memory_of(this, made)
    changed = wished(memory, this.claim.lease.wishes)
    if changed is memory:
        return None
    until = this.rows[made.messages - 1]
    covered = Covered(until.depth, until.path_tokens, until.sent_at)
    texts = this.claim.context.texts
    rendered, left_out = await texts.run(compose.rendered, changed, this.policy, covered)
    async with this.engine.begin() as connection:
        found = await checkpoints.summary(connection, this.chat, made.id)
        if found is None:
            raise chunks.changed()
        before, _ = found
        fresh = Fresh(
            parent=before.parent_id or 0,
            until=until,
            kind=before.kind,
            memory=changed,
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
    return published
