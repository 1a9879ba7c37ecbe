"""Use case: hear from Open WebUI what was deleted or edited, and delete it here.

In goes an event of Open WebUI (>= 0.10; the names are its own, from `open_webui/events.py` of
0.12.4). Only deletions and edits change anything; whatever else there is, now or later, is heard
and ignored. What is not known here is no error: a chat that was never ingested may be deleted too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics
from service.storage import audit, chats, deletions, sums, tombstones
from service.storage.chats import LockedChat
from service.storage.keys import Key

UNSAVED = "content:"  # how the filter's own ids of chats begin, which Open WebUI does not store


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in Open WebUI.

    `fingerprints` are those of all messages of an edited chat, by id. `left` are the ids of all
    chats that the user still has.
    """

    type: str
    chat: str | None = None
    message: str | None = None
    user: str | None = None
    fingerprints: Mapping[str, str] | None = None
    left: Sequence[str] | None = None


async def hear(engine: AsyncEngine, by: Key, event: Event) -> None:
    """Removes what the event says is gone, in one transaction.

    It leaves an audit row when there was something to remove.
    """
    async with engine.begin() as connection:
        match event.type:
            case "chat.deleted" | "chat.deleted_all" | "user.deleted" | "folder.deleted":
                await _chats_deleted(connection, by, event)
            case "message.deleted" | "message.updated" | "chat.updated":
                await _chat_changed(connection, by, event)


async def _chats_deleted(connection: AsyncConnection, by: Key, event: Event) -> None:
    match event:
        case Event(type="chat.deleted", chat=str(chat)):
            if event.user:
                await tombstones.alone(connection, by.tenant, "user", event.user)
            await forget(connection, by.tenant, by.actor, chat, "Open WebUI deleted it")
            # With it Open WebUI deletes the chats of its sub-agents.
            if event.user and event.left is not None:
                await _forget_of(connection, by, event, event.user, event.left, unsaved=False)
        case Event(type="chat.deleted_all" | "user.deleted", user=str(user)):
            await _forget_of(connection, by, event, user, (), unsaved=True)
            if event.type == "user.deleted":
                await tombstones.put(connection, by.tenant, "user", [user])
                await sums.forget_user(connection, by.tenant, user)
        case Event(type="folder.deleted", user=str(user), left=left) if left is not None:
            await _forget_of(connection, by, event, user, left, unsaved=False)


async def _chat_changed(connection: AsyncConnection, by: Key, event: Event) -> None:
    if event.chat is None:
        return
    locked = await chats.lock(connection, by.tenant, event.chat)
    if locked is None:
        return
    roots = await _roots(connection, locked, event)
    if roots:
        await _cut(connection, by, event, locked, roots)


async def _roots(connection: AsyncConnection, locked: LockedChat, event: Event) -> Collection[str]:
    """The messages of a chat that do not hold any more, with all below them."""
    if event.type != "chat.updated":
        return [event.message] if event.message is not None else []
    if not event.fingerprints:
        return []
    return await deletions.differing(connection, locked.key, event.fingerprints)


async def forget(connection: AsyncConnection, tenant: int, actor: str, chat: str, why: str) -> None:
    """Deletes a chat that Open WebUI does not have any more; it does not come back for a day."""
    # Whether it is stored or not: its first ingest may be under way.
    await tombstones.alone(connection, tenant, "chat", chat)
    await tombstones.put(connection, tenant, "chat", [chat])
    locked = await chats.lock(connection, tenant, chat)
    if locked is None:
        return
    await chats.forget(connection, locked.key)
    metrics.DELETED.labels("chats").inc()
    await audit.record(connection, tenant, actor, "chat.delete", chat, why=why)


async def _forget_of(
    connection: AsyncConnection,
    by: Key,
    event: Event,
    user: str,
    but: Sequence[str],
    *,
    unsaved: bool,
) -> None:
    # An unsaved chat is not in Open WebUI's lists, so only a user who leaves takes it along.
    prefix = None if unsaved else UNSAVED
    await tombstones.alone(connection, by.tenant, "user", user)
    deleted = await deletions.forget_of(connection, by.tenant, user, but, prefix)
    # The id of an unsaved chat is made of its first question: the user may ask that again.
    saved = [chat for chat in deleted if not chat.startswith(UNSAVED)]
    await tombstones.put(connection, by.tenant, "chat", saved)
    metrics.DELETED.labels("chats").inc(len(deleted))
    if deleted:
        whose = await _named(connection, by, event, user)
        details = {"user": whose, "deleted": len(deleted), "why": f"Open WebUI: {event.type}"}
        await audit.record(connection, by.tenant, by.actor, "chats.delete", None, **details)


async def _named(connection: AsyncConnection, by: Key, event: Event, user: str) -> str:
    """A user for the audit log: of one who is gone, a keyed hash."""
    if event.type != "user.deleted":
        return user
    key = await tombstones.salt(connection, by.tenant)
    return tombstones.keyed(key, "user", user).hex()


async def _cut(
    connection: AsyncConnection, by: Key, event: Event, locked: LockedChat, roots: Collection[str]
) -> None:
    deleted = await deletions.cut(connection, locked, roots)
    metrics.DELETED.labels("messages").inc(deleted.messages)
    metrics.DELETED.labels("checkpoints").inc(deleted.checkpoints)
    if deleted.messages or deleted.checkpoints:
        why = f"Open WebUI: {event.type}"
        details = asdict(deleted) | {"first": min(roots), "why": why}
        await audit.record(connection, by.tenant, by.actor, "chat.cut", event.chat, **details)
