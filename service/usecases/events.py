"""Use case: hear from Open WebUI what was deleted or edited, and delete it here.

In goes an event of Open WebUI (the names are its own, from `open_webui/events.py` of 0.12.4). Only
deletions and edits change anything; whatever else there is, now or later, is heard and ignored.
What is not known here is no error: a chat that was never ingested may be deleted too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from service.storage.keys import Operator
from service.usecases.delete import Deletion, EditedChat, GoneUser, OwnChats, WholeChat, delete


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in Open WebUI.

    `fingerprints` are those of all messages of an edited chat, by id. `left` are the ids of all
    chats that the user still has.
    """

    type: str
    chat: str | None = None
    user: str | None = None
    fingerprints: Mapping[str, str] | None = None
    left: Sequence[str] | None = None


async def handle_event(engine: AsyncEngine, by: Operator, event: Event) -> None:
    """Deletes what the event says is gone."""
    for what in find_deletions(event):
        await delete(engine, by, what, f"Open WebUI: {event.type}")


def find_deletions(event: Event) -> list[Deletion]:
    """The deletions that follow from an event."""
    match event:
        case Event("chat.deleted", chat=str(chat), user=str(user), left=left) if left is not None:
            # With a chat Open WebUI deletes the chats of its sub-agents.
            return [WholeChat(chat), OwnChats(user, left)]
        case Event("chat.deleted", chat=str(chat)):
            return [WholeChat(chat)]
        case Event("folder.deleted", user=str(user), left=left) if left is not None:
            return [OwnChats(user, left)]
        case Event("chat.deleted_all", user=str(user)):
            return [OwnChats(user)]
        case Event("user.deleted", user=str(user)):
            return [GoneUser(user)]
        case Event("chat.updated", chat=str(chat), fingerprints=known) if known:
            return [EditedChat(chat, known)]
    return []
