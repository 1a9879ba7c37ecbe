"""The summariser: one call of it, and its circuit breaker."""

from fastapi import APIRouter, Response

from service.api.deps import RuntimeDep
from service.usecases import operate
from service.web.page import PageRoute, go_to, render
from service.web.session import FormDep, SignedInDep

router = APIRouter(prefix="/summarisers", route_class=PageRoute, include_in_schema=False)


@router.post("/test")
async def try_summariser(signed_in: SignedInDep, runtime: RuntimeDep, _: FormDep) -> Response:
    """Asks the summariser once, about nobody's chat."""
    trial = await operate.try_summariser(
        runtime.database.engine, signed_in.by, runtime.worker_context.summariser
    )
    return render("trial.html", who=signed_in, place="/", trial=trial)


@router.post("/reset")
async def reset(signed_in: SignedInDep, runtime: RuntimeDep, form: FormDep) -> Response:
    """Closes a circuit breaker, so that the summariser is asked again at once."""
    name = str(form.get("name", "")) or None
    if await operate.reset_breakers(runtime.database.engine, signed_in.by, name):
        # What waited for it is looked for at once, and not at the next sweep.
        await runtime.queue.wake()
    return go_to("/")
