"""Deletions and edits that the events function in Open WebUI reports, so that they apply here."""

from fastapi import APIRouter, Request

from service.api.bodies import document_body, read_body
from service.api.deps import EventsKey, RuntimeDep
from service.usecases.events import EventRequest, handle_event

router = APIRouter(prefix="/v1", tags=["filter"])


@router.post("/events", status_code=202, openapi_extra=document_body(EventRequest))
async def post_event(request: Request, key: EventsKey, runtime: RuntimeDep) -> None:
    """Deletes what was deleted or edited in Open WebUI, and every summary that has read it."""
    event = await read_body(request, EventRequest)
    await handle_event(runtime.database.slow, key.by, event)
