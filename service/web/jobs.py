"""Work: what is due, working, waiting or dead, why, and retries."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from service.api.deps import RuntimeDep
from service.api.queries import JobParameters
from service.names import STATES
from service.storage import jobs
from service.usecases import monitor, operate
from service.web.page import PageRoute, go_to, make_address, render
from service.web.session import FormDep, SignedInDep

router = APIRouter(prefix="/jobs", route_class=PageRoute, include_in_schema=False)


class _Parameters(JobParameters):
    part: bool = False


@router.get("")
async def list_jobs(
    signed_in: SignedInDep, runtime: RuntimeDep, query: Annotated[_Parameters, Query()]
) -> Response:
    """The queue in numbers, and its jobs; with `part`, only the part that is renewed."""
    tenant, reads = signed_in.by.tenant, runtime.database.reads
    queue = await jobs.count_jobs(reads, tenant)
    states = query.state or STATES
    page = await monitor.list_jobs(reads, tenant, states, query.limit, query.cursor)
    return render(
        "jobs_part.html" if query.part else "jobs.html",
        who=signed_in,
        place="/jobs",
        queue=queue,
        jobs=page.jobs,
        chosen=query.state,
        states=STATES,
        here=make_address("/jobs", query, query.cursor),
        next=make_address("/jobs", query, page.next) if page.next else "",
    )


@router.post("/retry")
async def retry_dead(signed_in: SignedInDep, runtime: RuntimeDep, _: FormDep) -> Response:
    """Makes all dead work due now."""
    await operate.retry_dead_chats(runtime.database.engine, runtime.queue, signed_in.by)
    return go_to("/jobs")
