"""Operators' routes for chats: list, show, correct, reset, delete."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request
from msgspec import Meta

from service.api.bodies import document_body, read_body
from service.api.deps import ChatId, OperatorDep, RuntimeDep
from service.api.queries import ChatQuery, DeletionQuery
from service.usecases import inspection, operate
from service.usecases.inspection import ChatDetail, ChatPage, SummaryDetail
from service.usecases.operate import DroppedCheckpoints, ServedCheckpoint

router = APIRouter(prefix="/v1/chats", tags=["operators"])

LAST_ID = 2**62
CheckpointId = Annotated[int, Path(ge=1, le=LAST_ID)]
CheckpointNumber = Annotated[int, Meta(ge=1, le=LAST_ID)]
"""The same in a body."""


class CorrectRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parts to replace; null leaves a part as it is."""

    state: Annotated[str | None, Meta(description="Markdown with `## ` headings.")] = None
    rules: Annotated[
        list[str] | None,
        Meta(
            description="The texts of all rules that are to hold: a rule that is left out is"
            " deleted, and one that is there already keeps its source."
        ),
    ] = None
    quotations: Annotated[
        list[str] | None, Meta(description="The texts of all quotations, in the same way.")
    ] = None
    forget: Annotated[
        list[Annotated[str, Meta(max_length=40)]],
        Meta(
            max_length=1000,
            description="Numbers, such as `12.3`, of sentences to delete from this summary and from"
            " those that grow from it.",
        ),
    ] = []


class ResetRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The checkpoint to keep."""

    keep: Annotated[
        CheckpointNumber | None,
        Meta(
            description="Id of a checkpoint that serves, to keep with those it grew from;"
            " null drops all."
        ),
    ] = None


@router.get("")
async def list_chats(operator: OperatorDep, runtime: RuntimeDep, query: ChatQuery) -> ChatPage:
    """Lists chats, the most recently updated first."""
    engine, tenant = runtime.database.engine, operator.tenant
    return await inspection.list_chats(engine, tenant, query.limit, query.cursor, query.filters)


@router.get("/{chat_id}")
async def show_chat(chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep) -> ChatDetail:
    """Shows one chat with its branches, checkpoints and latest runs."""
    return await inspection.show_chat(runtime.database.engine, operator.tenant, chat_id)


@router.delete("/{chat_id}", status_code=204)
async def delete_chat(
    chat_id: ChatId, operator: OperatorDep, runtime: RuntimeDep, query: DeletionQuery
) -> None:
    """Deletes a chat with everything stored for it. Nothing is deleted in Open WebUI.

    There the chat may go on, and is stored again then, unless it was deleted `for_good`.
    """
    await operate.delete_chat(runtime.database.slow, operator, chat_id, for_good=query.for_good)


@router.get("/{chat_id}/checkpoints/{checkpoint_id}")
async def show_summary(
    chat_id: ChatId, checkpoint_id: CheckpointId, operator: OperatorDep, runtime: RuntimeDep
) -> SummaryDetail:
    """Shows a summary with its state, pins, talk and tool calls."""
    return await inspection.show_summary(runtime.database.engine, operator, chat_id, checkpoint_id)


@router.patch("/{chat_id}/checkpoints/{checkpoint_id}", openapi_extra=document_body(CorrectRequest))
async def correct_summary(
    chat_id: ChatId,
    checkpoint_id: CheckpointId,
    operator: OperatorDep,
    runtime: RuntimeDep,
    request: Request,
) -> ServedCheckpoint:
    """Corrects a summary: stores a new version with the given parts, which serves in its place.

    Deeper summaries serve no more; what they covered is summarised again from this one. The old
    version stays stored until retention deletes it, and the ledger of tool calls as it is. 409 when
    the summary does not serve; 422 when a part is too long.
    """
    body = await read_body(request, CorrectRequest)
    return await operate.correct(
        runtime.database.engine,
        runtime.queue,
        runtime.settings,
        operator,
        chat_id,
        checkpoint_id,
        body.state,
        body.rules,
        body.quotations,
        body.forget,
    )


@router.post(
    "/{chat_id}/reset", status_code=202, openapi_extra=document_body(ResetRequest, required=False)
)
async def reset(
    chat_id: ChatId,
    operator: OperatorDep,
    runtime: RuntimeDep,
    request: Request,
) -> DroppedCheckpoints:
    """Drops a chat's checkpoints, or those after one to `keep`, and makes new ones at once.

    A request that is larger than the window before that gets a summary by code, or is cut. If
    retention has deleted the chat's texts, its next request brings them, and work begins then. 409
    when the one to keep does not serve.
    """
    body = await read_body(request, ResetRequest, empty=ResetRequest())
    engine, queue = runtime.database.engine, runtime.queue
    return await operate.reset_chat(engine, queue, operator, chat_id, body.keep)
