"""Deletions and edits that the events function in Open WebUI reports, so that they apply here."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from service.api.deps import EventsKey, RuntimeDep, documented, read_body
from service.api.wire import Hash, Id
from service.transcript.digests import identity
from service.usecases.events import Event, hear

router = APIRouter(prefix="/v1", tags=["filter"])
_MessageId = Annotated[str, AfterValidator(identity)]  # as Open WebUI has it


class EventRequest(BaseModel):
    """An event of Open WebUI. Other types and fields than those of this page are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Annotated[
        Id, Field(description="Open WebUI's name of the event, such as `chat.deleted`.")
    ]
    chat_id: Id | None = None
    message_id: _MessageId | None = None
    user_id: Id | None = Field(None, description="User whose chat or chats were deleted.")
    fingerprints: dict[_MessageId, Hash] | None = Field(
        None,
        description="Fingerprints of all messages of an edited chat, by message id; a stored"
        " message with another fingerprint is deleted.",
    )
    left: list[Id] | None = Field(
        None,
        description="Ids of all chats that the user still has after a chat or folder was deleted.",
    )


@router.post("/events", status_code=202, openapi_extra=documented(EventRequest))
async def post_event(request: Request, key: EventsKey, runtime: RuntimeDep) -> None:
    """Deletes what was deleted or edited in Open WebUI, and every summary that has read it."""
    body = await read_body(request, EventRequest)
    event = Event(
        body.type, body.chat_id, body.message_id, body.user_id, body.fingerprints, body.left
    )
    await hear(runtime.database.engine, key.by, event)
