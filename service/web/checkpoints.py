"""One checkpoint: what it covers, its texts, and corrections."""

from fastapi import APIRouter, Response
from starlette.datastructures import FormData

from service.api.chats import CheckpointId
from service.api.deps import ChatId, RuntimeDep
from service.summarising.memory import Kind
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
        rules=_list_texts(summary, Kind.RULE),
        quotations=_list_texts(summary, Kind.QUOTATION),
        left_out=sum(1 for sentence in summary.talk if not sentence.in_summary),
    )


def _list_texts(summary: inspection.SummaryDetail, kind: Kind) -> str:
    """The texts of the pins of a kind that hold, one on each line."""
    holding = [pin for pin in summary.pins if pin.kind is kind and pin.replaced_by is None]
    return "\n".join(pin.text for pin in holding)


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
    state = str(form.get("state", ""))
    await operate.correct(
        runtime.database.engine,
        runtime.queue,
        runtime.settings,
        signed_in.by,
        chat_id,
        checkpoint_id,
        state if state.strip() else None,
        _read_lines(form, "rules"),
        _read_lines(form, "quotations"),
        [str(number) for number in form.getlist("forget")],
    )
    return go_to(f"/chats/{segment(chat_id)}?done=served")


def _read_lines(form: FormData, field: str) -> list[str] | None:
    """The lines of a field that have words; None without the field."""
    if field not in form:
        return None
    lines = str(form[field]).splitlines()
    return [line for line in lines if line.strip()]
