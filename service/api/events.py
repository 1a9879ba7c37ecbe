"""What Open WebUI tells by its events: deletions and edits, so that nothing of them is kept here."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from service.api.deps import FilterKey, RuntimeDep, documented, read_body
from service.api.wire import Hash, Id
from service.usecases.forget import Event, hear

router = APIRouter(prefix="/v1", tags=["filter"])


class EventRequest(BaseModel):
    """An event of Open WebUI. A type that means nothing here, and fields that are not named here, are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Annotated[Id, Field(description="Open WebUI's name of the event, as `chat.deleted`.")]
    chat_id: Id | None = None
    message_id: Id | None = None
    user_id: Id | None = Field(None, description="Whose chat or chats were deleted.")
    fingerprints: dict[Id, Hash] | None = Field(
        None,
        description="Of all messages of an edited chat, by id: what is stored with another one goes.",
    )
    left: list[Id] | None = Field(
        None, description="All chats that the user still has after a chat or a folder was deleted."
    )


@router.post("/events", status_code=202, openapi_extra=documented(EventRequest))
async def post_event(request: Request, key: FilterKey, runtime: RuntimeDep) -> None:
    """Hears an event. What was deleted or edited goes, with the summaries that have read it."""
    body = await read_body(request, EventRequest)
    event = Event(
        body.type, body.chat_id, body.message_id, body.user_id, body.fingerprints, body.left
    )
    await hear(runtime.database.engine, key, event)
