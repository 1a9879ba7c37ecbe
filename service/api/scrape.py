"""`GET /metrics`, for Prometheus: the counts of this process, and the metrics of the fleet.

A request for metrics reads those of the fleet, at most every five seconds, so they cost no other
request anything. A worker's port shows the counts of the worker alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import Final, TypeVar, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import SecretStr
from redis.exceptions import RedisError

from service import __version__, metrics
from service.api import health, problems
from service.api.deps import WITHOUT_TELEMETRY, RuntimeDep
from service.api.health import Cache
from service.errors import Problem, ProblemType
from service.runtime import Runtime
from service.settings import Settings
from service.storage import database, runs

_KEPT: Final = 5.0  # seconds that the metrics of the fleet are answered again
_PATIENCE: Final = 3.0  # seconds for a database; Prometheus gives up after ten

T = TypeVar("T")

router = APIRouter(tags=["health"])


async def _render_fleet(runtime: Runtime) -> bytes:
    """The metrics of the fleet; those of a database that does not answer are missing."""
    queue, worker_alive = await asyncio.gather(
        _unless_away(lambda: runs.read_queue_figures(runtime.database.reads)),
        _unless_away(runtime.queue.has_worker),
    )
    return metrics.render_fleet(queue, worker_alive)


async def _unless_away(read: Callable[[], Awaitable[T]]) -> T | None:
    """The value that `read` returns, or None when the server does not answer in time."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await read()
    except Exception as error:
        if isinstance(error, OSError | RedisError) or database.is_away(error):
            return None
        raise


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {}}, "description": "Metrics, as text."}},
)
async def get_metrics(request: Request, runtime: RuntimeDep) -> Response:
    """Metrics in the text format of Prometheus.

    Send the token of `PRECIS_METRICS_TOKEN` as `Authorization: Bearer <token>`.
    """
    check_reader(request, runtime.settings.metrics_token)
    cache = cast(Cache[bytes], request.app.state.fleet_metrics)
    fleet = await cache.get(lambda: _render_fleet(runtime), _KEPT)
    return _render_metrics(metrics.render_process() + fleet)


def create_worker_app(settings: Settings) -> FastAPI:
    """The application on a worker's own port: `/livez`, and the worker's metrics."""
    app = FastAPI(
        title="Precis worker",
        version=__version__,
        openapi_url=None,
        telemetry=WITHOUT_TELEMETRY,
    )
    problems.install_handlers(app)

    @app.get("/metrics")
    async def get_own_metrics(request: Request) -> Response:
        check_reader(request, settings.metrics_token)
        return _render_metrics(metrics.render_process())

    app.add_api_route("/livez", health.livez)
    return app


def check_reader(request: Request, secret: SecretStr) -> None:
    """Checks the token of a request for metrics.

    Raises:
        Problem: UNAUTHORISED: the token is wrong or missing, or no token is set.
    """
    token = secret.get_secret_value()
    kind, _, sent_token = request.headers.get("authorization", "").partition(" ")
    is_right = compare_digest(sent_token.strip().encode(), token.encode())
    if not (token and is_right and kind.lower() == "bearer"):
        raise Problem(
            "set PRECIS_METRICS_TOKEN, and send it as `Authorization: Bearer <token>`",
            ProblemType.UNAUTHORISED,
        )


def _render_metrics(content: bytes) -> Response:
    return Response(content, media_type=metrics.CONTENT_TYPE)
