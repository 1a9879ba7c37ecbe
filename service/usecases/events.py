"""Use case: hear from Open WebUI what was deleted or edited, and delete it here.

In goes an event of Open WebUI (the names are its own, from `open_webui/events.py` of 0.12.4). Only
deletions and edits change anything; whatever else there is, now or later, is heard and ignored.
What is not known here is no error: a chat that was never ingested may be deleted too.
"""

from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncEngine

from service.processes.intake import Hash, Id
from service.storage.keys import Operator
from service.transcript import normalise_id
from service.usecases import delete


class EventRequest(msgspec.Struct, frozen=True):
    """An event of Open WebUI. Other types and fields than those of this page are ignored."""

    type: Annotated[Id, Meta(description="Open WebUI's name of the event, such as `chat.deleted`.")]
    chat_id: Id | None = None
    user_id: Annotated[Id | None, Meta(description="User whose chat or chats were deleted.")] = None
    fingerprints: Annotated[
        dict[str, Hash] | None,
        Meta(
            description="Fingerprints of all messages of an edited chat, by message id; a stored"
            " message with another fingerprint is deleted."
        ),
    ] = None
    left: Annotated[
        list[Id] | None,
        Meta(
            description="Ids of all chats that the user still has after a chat or folder was"
            " deleted."
        ),
    ] = None


async def handle_event(engine: AsyncEngine, by: Operator, event: EventRequest) -> None:
    """Deletes what the event says is gone."""
    why = f"Open WebUI: {event.type}"
    match event:
        case EventRequest(type="chat.deleted", chat_id=str(chat)):
            await delete.delete_chat(engine, by, chat, why)
            # With a chat, Open WebUI deletes the chats of its sub-agents, and reports none of them.
            await _delete_all_but_left(engine, by, event, why)
        case EventRequest(type="folder.deleted"):
            await _delete_all_but_left(engine, by, event, why)
        case EventRequest(type="chat.deleted_all", user_id=str(user)):
            await delete.delete_own_chats(engine, by, user, why)
        case EventRequest(type="user.deleted", user_id=str(user)):
            await delete.delete_user(engine, by, user, why)
        case EventRequest(type="chat.updated", chat_id=str(chat), fingerprints=told) if told:
            # Odd ids are stored as their hashes.
            fingerprints = {normalise_id(name): one for name, one in told.items()}
            await delete.cut_chat(engine, by, chat, why, fingerprints)


async def _delete_all_but_left(
    engine: AsyncEngine, by: Operator, event: EventRequest, why: str
) -> None:
    """Deletes the user's chats that Open WebUI has no more, if the event says which it has."""
    if event.user_id is not None and event.left is not None:
        await delete.delete_own_chats(engine, by, event.user_id, why, event.left)
