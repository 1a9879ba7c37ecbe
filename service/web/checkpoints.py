"""One checkpoint: what it covers, its texts, and corrections."""

import json

import msgspec
from fastapi import APIRouter, Response

from service.api import problems
from service.api.chats import CheckpointId
from service.api.deps import ChatId, RuntimeDep
from service.summarising.correction import GivenPin
from service.usecases import inspection, operate
from service.web.page import PageRoute, go_to, render
from service.web.session import FormDep, SignedInDep
from service.web.words import segment

router = APIRouter(
    prefix="/chats/{chat_id}/checkpoints/{checkpoint_id}",
    route_class=PageRoute,
    include_in_schema=False,
)


@router.get("")
async def show(
    chat_id: ChatId, checkpoint_id: CheckpointId, signed_in: SignedInDep, runtime: RuntimeDep
) -> Response:
    """A checkpoint with its texts; the audit log notes who reads them."""
    engine = runtime.database.engine
    summary = await inspection.show_summary(engine, signed_in.by, chat_id, checkpoint_id)
    return render(
        "checkpoint.html",
        who=signed_in,
        place="/chats",
        chat_id=chat_id,
        made=summary.checkpoint,
        summary=summary,
        pins=_format_pins(summary),
        left_out=sum(1 for sentence in summary.talk if not sentence.in_summary),
    )


def _format_pins(summary: inspection.SummaryDetail) -> str:
    """The pins as `correct` takes them."""
    pins = [
        {"number": pin.number, "kind": pin.kind, "text": pin.text}
        for pin in summary.pins
        if pin.replaced_by is None
    ]
    return json.dumps(pins, indent=2, ensure_ascii=False)


@router.post("/correct")
async def correct(
    chat_id: ChatId,
    checkpoint_id: CheckpointId,
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    form: FormDep,
) -> Response:
    """Stores a corrected version, which serves in its place."""
    # A part without a field stays as it is. So does the state when its field is empty: that is a
    # slip, and would be served at once.
    state, pins = str(form.get("state", "")), form.get("pins")
    await operate.correct(
        runtime.database.engine,
        runtime.queue,
        runtime.settings,
        signed_in.by,
        chat_id,
        checkpoint_id,
        state if state.strip() else None,
        None if pins is None else _parse_pins(str(pins)),
        [str(number) for number in form.getlist("forget")],
    )
    return go_to(f"/chats/{segment(chat_id)}?done=served")


def _parse_pins(pins: str) -> list[GivenPin]:
    try:
        return msgspec.json.decode(pins, type=list[GivenPin])
    except msgspec.DecodeError as error:
        raise problems.make_body_problem(error, above="/pins") from None
