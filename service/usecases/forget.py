"""Use case: hear from Open WebUI what was deleted or edited, and let go of it.

In goes an event of Open WebUI (>= 0.10; the names are its own, from `open_webui/events.py` of
0.12.4). Only deletions and edits change anything; whatever else there is, now or later, is heard
and ignored. What is not known here is no
error: a chat that was never handed over may be deleted too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.storage import audit, chats, deletions
from service.storage.keys import Key
from service.storage.tenancy import ChatKey

_UNSAVED = "content:"  # how the filter's own ids of chats begin, which Open WebUI does not store


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
    """Removes what the event says is gone, in one transaction, and leaves an audit row when there was something."""
    async with engine.begin() as connection:
        match event:
            case Event(type="chat.deleted", chat=str(chat)):
                await _forget(connection, by, chat)
                if (
                    event.user and event.left is not None
                ):  # with it went the chats of its sub-agents
                    await _forget_of(connection, by, event, event.user, event.left, unsaved=False)
            case Event(type="chat.deleted_all" | "user.deleted", user=str(user)):
                await _forget_of(connection, by, event, user, (), unsaved=True)
            case Event(type="folder.deleted", user=str(user), left=left) if left is not None:
                await _forget_of(connection, by, event, user, left, unsaved=False)
            case Event(
                type="message.deleted" | "message.updated", chat=str(chat), message=str(message)
            ):
                if key := await chats.lock(connection, by.tenant, chat):
                    await _cut(connection, by, event, key, [message])
            case Event(type="chat.updated", chat=str(chat), fingerprints=known) if known:
                key = await chats.lock(connection, by.tenant, chat)
                if key and (roots := await deletions.differing(connection, key, known)):
                    await _cut(connection, by, event, key, roots)


async def _forget(connection: AsyncConnection, by: Key, chat: str) -> None:
    if key := await chats.lock(connection, by.tenant, chat):
        await chats.forget(connection, key)
        await audit.record(
            connection, by.tenant, by.actor, "chat.delete", chat, why="Open WebUI deleted it"
        )


async def _forget_of(
    connection: AsyncConnection,
    by: Key,
    event: Event,
    user: str,
    but: Sequence[str],
    *,
    unsaved: bool,
) -> None:
    deleted = await deletions.forget_of(
        connection, by.tenant, user, but, None if unsaved else _UNSAVED
    )
    if deleted:
        why = f"Open WebUI: {event.type}"
        await audit.record(
            connection,
            by.tenant,
            by.actor,
            "chats.delete",
            None,
            user=user,
            deleted=deleted,
            why=why,
        )


async def _cut(
    connection: AsyncConnection, by: Key, event: Event, key: ChatKey, roots: Collection[str]
) -> None:
    gone = await deletions.cut(connection, key, roots)
    if gone.messages or gone.checkpoints:
        why = f"Open WebUI: {event.type}"
        details = asdict(gone) | {"first": min(roots)}
        await audit.record(
            connection, by.tenant, by.actor, "chat.cut", event.chat, why=why, **details
        )
