"""Makes operators' changes, the same for REST and the pages. Each leaves an audit row.

What they look at is in `inspection`. Those that make work due wake a worker after their commit: a
worker that comes earlier would find no work.
What this tenant does not have, a chat or a checkpoint, raises NotFound.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.clients.wake_ups import Queue
from service.errors import Conflict
from service.settings import Settings
from service.storage import chats, checkpoints, keys, messages, work
from service.storage.chats import StoredChat
from service.storage.checkpoints import CheckpointInfo
from service.storage.keys import Operator
from service.summarising import message, summarise
from service.summarising.correction import check_summary, correct_memory
from service.summarising.memory import Memory
from service.summarising.summarise import CoveredSpan
from service.usecases import delete, inspection


@dataclass(frozen=True, slots=True)
class DroppedCheckpoints:
    """The number of checkpoints that were dropped."""

    dropped: int


@dataclass(frozen=True, slots=True)
class ServedCheckpoint:
    """The checkpoint that serves from now on."""

    checkpoint: CheckpointInfo


async def correct(
    engine: AsyncEngine,
    queue: Queue,
    settings: Settings,
    by: Operator,
    chat: str,
    checkpoint: int,
    state: str | None,
    rules: Sequence[str] | None,
    quotations: Sequence[str] | None,
    forget: Sequence[str],
) -> ServedCheckpoint:
    """Makes a new version of a checkpoint, which serves in its place.

    It has another state, other rules or quotations, or lacks some talk. Deeper ones serve no more:
    what they covered is summarised again from this one. Work that is under way is refused.

    Raises:
        Conflict: the checkpoint does not serve.
        Unprocessable: a part is too long, or names what there is not; nothing was stored.
    """
    async with engine.begin() as connection:
        row = await _lock_chat(connection, by.tenant, chat)
        old = await _find_serving(connection, row, chat, checkpoint)
        rows = await messages.find_messages(connection, row.key, [old.boundary])
    before = await inspection.load_memory(engine, row.key, chat, checkpoint)
    sent_at = rows[old.boundary].sent_at
    memory = correct_memory(before, state, rules, quotations, forget)
    # In a thread and in no transaction: an operator's text may be long.
    wrote = state is not None
    text, size = await asyncio.to_thread(
        _render_version, settings, row, old, memory, sent_at, owns_state=wrote
    )
    texts = await checkpoints.pack_texts(engine, row.key, old.parent_id or 0, memory, text)
    async with engine.begin() as connection:
        row = await _lock_chat(connection, by.tenant, chat)
        # A checkpoint never changes, but another may serve by now.
        await _find_serving(connection, row, chat, checkpoint)
        await checkpoints.correct_checkpoint(connection, row.key, checkpoint, texts, size, by.actor)
        wake_up = await work.mark_due_at_once(connection, row.key)
        made = await inspection.find_checkpoint(connection, row.key, chat, texts.number)
        await keys.record_change(
            connection, by, "checkpoint.correct", chat, checkpoint=checkpoint, made=made.id
        )
    await queue.wake(wake_up)
    return ServedCheckpoint(made)


async def reset_chat(
    engine: AsyncEngine, queue: Queue, by: Operator, chat: str, keep: int | None
) -> DroppedCheckpoints:
    """Drops the checkpoints of a chat, and makes new ones at once from the stored messages.

    With `keep`, only those that do not lead up to that one; it serves then. Work that is under way
    is refused when it comes to publish. If texts were deleted for their age, the work ends until
    the chat's next request, which has them.

    Raises:
        Conflict: the one to keep does not serve.
    """
    async with engine.begin() as connection:
        row = await _lock_chat(connection, by.tenant, chat)
        if keep is not None:
            await _find_serving(connection, row, chat, keep)
        kept = await checkpoints.find_lineage(connection, row.key, keep or 0)
        dropped = await checkpoints.drop_all_but(connection, row.key, kept.ids if kept else [])
        wake_up = await work.mark_due_at_once(connection, row.key)
        await keys.record_change(connection, by, "chat.reset", chat, dropped=dropped, kept=keep)
    await queue.wake(wake_up)
    return DroppedCheckpoints(dropped)


async def delete_chat(
    engine: AsyncEngine, by: Operator, chat: str, *, for_good: bool = False
) -> None:
    """Deletes a chat; if `for_good`, nothing of it is stored for a day.

    Raises:
        NotFound: this tenant has no such chat; `for_good`, it is not stored later either.
    """
    why = "an operator wished it for good" if for_good else "an operator wished it"
    if not await delete.delete_chat(engine, by, chat, why, for_good=for_good):
        raise inspection.make_no_chat_error(chat)


async def retry(engine: AsyncEngine, queue: Queue, by: Operator, chat: str) -> None:
    """Makes a chat's work due now, whatever failed before."""
    async with engine.begin() as connection:
        row = await _lock_chat(connection, by.tenant, chat)
        wake_up = await work.mark_due_at_once(connection, row.key)
        await keys.record_change(connection, by, "job.retry", chat)
    await queue.wake(wake_up)


async def retry_dead_chats(engine: AsyncEngine, queue: Queue, by: Operator) -> int:
    """Makes all dead work of the tenant due now; returns how many chats that are."""
    async with engine.begin() as connection:
        revived = await work.revive_dead(connection, by.tenant)
        await keys.record_change(connection, by, "job.retry", None, revived=revived)
    if revived:
        # One wake-up is enough: each chat that is done wakes a worker for the next.
        await queue.wake()
    return revived


def _render_version(
    settings: Settings,
    row: StoredChat,
    old: CheckpointInfo,
    memory: Memory,
    sent_at: int | None,
    *,
    owns_state: bool,
) -> tuple[str, int]:
    """The text of another version of a checkpoint, and its size in tokens, if it fits.

    `owns_state` says that the operator wrote the state.
    """
    policy = settings.policy(row.model, row.window, row.overhead)
    covered = CoveredSpan(old.covered_messages, old.covered_tokens, sent_at, policy.keep_tokens)
    text, parts = summarise.render_memory(memory, policy, covered)
    size = message.count_tokens(text)
    sizes = {"before": old.tokens, "covered": covered.tokens, "window": row.window}
    check_summary(parts, size, owns_state=owns_state, **sizes)
    return text, size


async def _find_serving(
    connection: AsyncConnection, row: StoredChat, chat: str, checkpoint: int
) -> CheckpointInfo:
    """A checkpoint that serves.

    Raises:
        Conflict: it does not.
    """
    found = await inspection.find_checkpoint(connection, row.key, chat, checkpoint)
    if not found.serving:
        raise Conflict(
            f"checkpoint {checkpoint} does not serve: another took its place, or messages that it"
            " covers were edited or deleted"
        )
    return found


async def _lock_chat(connection: AsyncConnection, tenant: int, chat: str) -> StoredChat:
    row = await chats.find_chat(connection, tenant, chat, lock=True)
    if row is None:
        raise inspection.make_no_chat_error(chat)
    return row
