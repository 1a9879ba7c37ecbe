"""`GET /metrics`, for Prometheus: what this process counted, and the figures of the fleet.

The figures are read when somebody asks, at most every five seconds, so that they cost no other
request anything. A worker's port shows what the worker counted alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from ipaddress import IPv6Address, ip_address
from typing import Final, TypeVar, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import SecretStr
from redis.exceptions import RedisError

from service import __version__, metrics
from service.api import health, problems
from service.api.deps import WITHOUT_TELEMETRY, RuntimeDep
from service.api.health import Kept
from service.errors import Unauthorised
from service.metrics import Fleet
from service.runtime import Runtime
from service.settings import Settings
from service.storage import figures, outage

_KEPT: Final = 5.0  # seconds that figures of the fleet are shown again
_PATIENCE: Final = 3.0  # seconds for a database; Prometheus gives up after ten
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-real-ip")

T = TypeVar("T")

router = APIRouter(tags=["health"])


async def _read(runtime: Runtime) -> Fleet:
    """The figures of the fleet; those of a database that does not answer are missing."""
    queue, worker_alive = await asyncio.gather(
        _unless_away(lambda: figures.queue(runtime.database.reads)),
        _unless_away(runtime.queue.has_worker),
    )
    return Fleet(queue, worker_alive)


async def _unless_away(read: Callable[[], Awaitable[T]]) -> T | None:
    """What is read, or None when the server does not answer in time."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await read()
    except Exception as error:
        if isinstance(error, OSError | RedisError) or outage.is_away(error):
            return None
        raise


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {}}, "description": "Metrics, as text."}},
)
async def get_metrics(request: Request, runtime: RuntimeDep) -> Response:
    """Metrics in the text format of Prometheus.

    Other machines send the token of `PRECIS_METRICS_TOKEN` as `Authorization: Bearer <token>`.
    """
    check_reader(request, runtime.settings.metrics_token)
    kept = cast(Kept, request.app.state.figures)
    fleet = await kept.of(lambda: _read(runtime), _KEPT)
    return _text(metrics.of_process() + metrics.of_fleet(fleet))


def create_worker_app(settings: Settings) -> FastAPI:
    """What a worker serves on its own port: `/livez`, and its own metrics."""
    app = FastAPI(
        title="Precis worker",
        version=__version__,
        openapi_url=None,
        telemetry=WITHOUT_TELEMETRY,
    )
    app.state.refusals = health.Refusals()
    problems.install(app)

    @app.get("/metrics")
    async def get_own_metrics(request: Request) -> Response:
        check_reader(request, settings.metrics_token)
        return _text(metrics.of_process())

    app.add_api_route("/livez", health.livez)
    return app


def check_reader(request: Request, secret: SecretStr) -> None:
    """Lets this machine read metrics, and others with the token.

    Raises:
        Unauthorised: the token is wrong, or missing, or there is none.
    """
    if _is_local(request):
        return
    token = secret.get_secret_value()
    if not token:
        raise Unauthorised(
            "metrics are for this machine only; set PRECIS_METRICS_TOKEN to let others read them"
        )
    kind, _, sent_token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not compare_digest(sent_token.strip().encode(), token.encode()):
        raise Unauthorised("send PRECIS_METRICS_TOKEN as `Authorization: Bearer <token>`")


def _is_local(request: Request) -> bool:
    """Whether the request comes from this machine, and from nobody behind a proxy on it."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    return _is_own_name(request.headers.get("host", "")) and _is_loopback(request.client.host)


def _is_own_name(host: str) -> bool:
    """Whether a `Host` is an address or `localhost`.

    A page elsewhere may tell a browser on this machine that the page's own name is this machine;
    the browser still says that name.
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return name.lower() == "localhost"
    return True


def _is_loopback(client: str) -> bool:
    try:
        address = ip_address(client)
    except ValueError:
        return False
    # As a socket for both families shows IPv4; Python 3.11 calls no such address loopback.
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _text(content: bytes) -> Response:
    return Response(content, media_type=metrics.CONTENT_TYPE)
