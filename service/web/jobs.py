"""Work: what is due, working, waiting or dead, why, and retries."""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response

from service.api.deps import RuntimeDep
from service.names import STATES, State
from service.storage import jobs
from service.usecases import monitor, operate
from service.web.page import PageRoute, go_to, render
from service.web.session import FormDep, SignedInDep

router = APIRouter(prefix="/jobs", route_class=PageRoute, include_in_schema=False)

_SHOWN: Final = 50


@router.get("")
async def list_jobs(
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    state: Annotated[State | Literal[""], Query()] = "",
    cursor: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    part: Annotated[bool, Query()] = False,
) -> Response:
    """The queue in numbers, and its jobs."""
    tenant, reads = signed_in.by.tenant, runtime.database.reads
    queue = await jobs.count_jobs(reads, tenant)
    page = await monitor.list_jobs(reads, tenant, [state] if state else STATES, _SHOWN, cursor)
    here = f"/jobs?state={state}"
    return render(
        "jobs_part.html" if part else "jobs.html",
        who=signed_in,
        place="/jobs",
        queue=queue,
        jobs=page.jobs,
        state=state,
        states=STATES,
        here=f"{here}&cursor={cursor}",
        next=f"{here}&cursor={page.next}" if page.next else "",
    )


@router.post("/retry")
async def retry_dead(signed_in: SignedInDep, runtime: RuntimeDep, _: FormDep) -> Response:
    """Makes all dead work due now."""
    await operate.retry_dead_chats(runtime.database.engine, runtime.queue, signed_in.by)
    return go_to("/jobs")
