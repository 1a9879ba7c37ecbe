"""Deletions and edits that the events function in Open WebUI reports, so that they apply here."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Request
from msgspec import Meta

from service.api.deps import EventsKey, RuntimeDep, document_body, read_body
from service.processes.intake import Hash, Id
from service.transcript import normalise_id
from service.usecases.events import Event, handle_event

router = APIRouter(prefix="/v1", tags=["filter"])


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


@router.post("/events", status_code=202, openapi_extra=document_body(EventRequest))
async def post_event(request: Request, key: EventsKey, runtime: RuntimeDep) -> None:
    """Deletes what was deleted or edited in Open WebUI, and every summary that has read it."""
    body = await read_body(request, EventRequest)
    # Odd ids are stored as their hashes.
    given = body.fingerprints
    fingerprints = given and {normalise_id(name): one for name, one in given.items()}
    event = Event(body.type, body.chat_id, body.user_id, fingerprints, body.left)
    await handle_event(runtime.database.slow, key.by, event)
