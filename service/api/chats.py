"""What operators ask: look at chats and summaries, serve another version, correct, reset, recompute, delete."""

import base64
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from service.api.deps import ChatId, OperatorDep, RuntimeDep, documented, read_body
from service.api.wire import Strict
from service.errors import BadRequest
from service.runtime import Runtime
from service.storage.chats import Overview
from service.storage.checkpoints import Made
from service.summarising.correction import GivenPin
from service.summarising.memory import Kind
from service.usecases import inspect, operate
from service.usecases.inspect import Detail, Shown
from service.usecases.operate import ServedCheckpoint

router = APIRouter(prefix="/v1/chats", tags=["operators"])

CheckpointId = Annotated[int, Path(ge=1, le=2**62)]


class ChatPage(BaseModel):
    """A page of chats; `next` is the cursor of the page after it."""

    chats: list[Overview]
    next: str | None = None


class PinRequest(Strict):
    """One entry of the pinned sections."""

    number: Annotated[int, Field(ge=1, le=2**31)] | None = Field(
        None,
        description="Of the pin that it stands for, which keeps where it came from; null for a new one.",
    )
    kind: Kind
    text: str = Field(description="One sentence; line breaks become blanks.")

    def given(self) -> GivenPin:
        """As the use case takes it."""
        return GivenPin(self.kind, self.text, self.number)


class CorrectRequest(Strict):
    """The parts to replace. What is null stays."""

    narrative: str | None = Field(None, description="Markdown with `## ` heads.")
    pins: list[PinRequest] | None = Field(
        None,
        description="All that are to be shown: one that is left out goes. Replaced ones need not be named.",
    )
    forget: list[Annotated[str, Field(max_length=40)]] = Field(
        [], max_length=1000, description="Sentences of the talk that are to go, by number: `12.3`."
    )


class ResetRequest(Strict):
    """What to keep."""

    keep: int | None = Field(
        None, description="A checkpoint to keep, with those it grew from; null drops all."
    )


_WAITS = (
    "Texts that new summaries need are not kept any more: they are asked for at the chat's next turn, and the work on"
    " them begins then."
)


class ResetAnswer(BaseModel):
    """What was dropped."""

    dropped: int
    waits: bool = Field(description=_WAITS)


class RecomputeAnswer(BaseModel):
    """Whether work is due now."""

    due: bool
    waits: bool = Field(description=_WAITS)


class ServedAnswer(RecomputeAnswer):
    """What serves from now on, and whether work on what follows it is due."""

    checkpoint: Made


@router.get("")
async def list_chats(
    operator: OperatorDep,
    runtime: RuntimeDep,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[
        str | None, Query(max_length=200, description="`next` of the page before.")
    ] = None,
) -> ChatPage:
    """Chats, the newest first."""
    after = _decode(cursor) if cursor else None
    found = await inspect.list_chats(runtime.database.engine, operator.tenant, limit + 1, after)
    page = list(found[:limit])
    return ChatPage(chats=page, next=_encode(page[-1]) if len(found) > limit else None)


@router.get("/{chat_id}")
async def show_chat(chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep) -> Detail:
    """One chat with its branches, checkpoints and latest rounds of work."""
    return await inspect.show_chat(runtime.database.engine, operator.tenant, chat_id)


@router.delete("/{chat_id}", status_code=204)
async def delete_chat(chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep) -> None:
    """Deletes a chat and all that is its own."""
    await operate.delete(runtime.database.engine, operator, chat_id)


@router.get("/{chat_id}/checkpoints")
async def list_checkpoints(
    chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep
) -> list[Made]:
    """A chat's checkpoints, oldest first."""
    return await inspect.list_checkpoints(runtime.database.engine, operator.tenant, chat_id)


@router.get("/{chat_id}/checkpoints/{checkpoint_id}")
async def show_summary(
    chat_id: ChatId, checkpoint_id: CheckpointId, operator: OperatorDep, runtime: RuntimeDep
) -> Shown:
    """A summary with its narrative, pins and talk, and the messages that it covers."""
    return await inspect.show_summary(
        runtime.database.engine, operator.tenant, chat_id, checkpoint_id
    )


@router.patch("/{chat_id}/checkpoints/{checkpoint_id}", openapi_extra=documented(CorrectRequest))
async def correct(
    chat_id: ChatId,
    checkpoint_id: CheckpointId,
    operator: OperatorDep,
    runtime: RuntimeDep,
    request: Request,
) -> ServedAnswer:
    """Corrects a summary: makes a new version with the given parts, and serves it. The old version is kept.

    The ledger stays as it is. 409 when what it covers was edited or deleted since; 422 when a part
    is too long.
    """
    body = await read_body(request, CorrectRequest)
    pins = None if body.pins is None else [one.given() for one in body.pins]
    given = body.narrative, pins, body.forget
    engine, settings = runtime.database.engine, runtime.settings
    made = await operate.correct(engine, settings, operator, chat_id, checkpoint_id, *given)
    return await _served(runtime, made)


@router.post("/{chat_id}/checkpoints/{checkpoint_id}/serve")
async def serve(
    chat_id: ChatId, checkpoint_id: CheckpointId, operator: OperatorDep, runtime: RuntimeDep
) -> ServedAnswer:
    """Serves this summary, an older version or an earlier one, at its boundary and below.

    Deeper summaries are kept and serve no more; what they covered is summarised anew from this one.
    409 when what it covers was edited or deleted since.
    """
    return await _served(
        runtime, await operate.serve(runtime.database.engine, operator, chat_id, checkpoint_id)
    )


@router.post("/{chat_id}/reset", openapi_extra=documented(ResetRequest, required=False))
async def reset(
    chat_id: ChatId,
    operator: OperatorDep,
    runtime: RuntimeDep,
    request: Request,
) -> ResetAnswer:
    """Drops a chat's checkpoints, or only those beyond one that is kept, and that one serves.

    New ones are made when the chat goes on.
    """
    body = await read_body(request, ResetRequest, empty=ResetRequest())
    dropped = await operate.reset(runtime.database.engine, operator, chat_id, body.keep)
    return ResetAnswer(dropped=dropped.checkpoints, waits=dropped.waits)


@router.post("/{chat_id}/recompute", status_code=202)
async def recompute(chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep) -> RecomputeAnswer:
    """Drops a chat's checkpoints and computes new ones right away; until then its requests are sent in full.

    When texts that this needs are not kept any more, it waits for the chat's next turn, which
    brings them again.
    """
    dropped = await operate.recompute(runtime.database.engine, operator, chat_id)
    if dropped.wake_up:
        await runtime.queue.wake(dropped.wake_up)
    return RecomputeAnswer(due=not dropped.waits, waits=dropped.waits)


async def _served(runtime: Runtime, served: ServedCheckpoint) -> ServedAnswer:
    if served.wake_up:
        await runtime.queue.wake(served.wake_up)
    return ServedAnswer(checkpoint=served.checkpoint, due=not served.waits, waits=served.waits)


def _encode(last: Overview) -> str:
    return base64.urlsafe_b64encode(f"{last.updated_at.isoformat()} {last.id}".encode()).decode()


def _decode(cursor: str) -> tuple[datetime, int]:
    try:
        moment, _, identity = base64.urlsafe_b64decode(cursor.encode()).decode().rpartition(" ")
        after = datetime.fromisoformat(moment).astimezone(UTC), int(identity)
        if not 0 < after[1] < 2**63:
            raise ValueError(identity)
        return after
    except (ValueError, OverflowError):
        raise BadRequest(
            "the cursor is not one that this service gave; start without a cursor"
        ) from None
