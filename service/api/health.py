"""Whether the service is alive and ready, and its version. These routes need no key."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from redis.exceptions import RedisError

from service import __version__
from service.api.deps import RuntimeDep
from service.errors import SchemaError, SchemaNewer
from service.runtime import Runtime
from service.storage import outage
from service.storage.database import check_schema

T = TypeVar("T")

router = APIRouter(tags=["health"])

_KEPT = 1.0  # seconds that an answer of `/readyz` is given again
_PATIENCE = 2.0  # seconds that `/readyz` waits for the database


class Kept:
    """What takes milliseconds to read, and is shown again for a while."""

    def __init__(self) -> None:
        # Those who ask meanwhile share one read.
        self._one_by_one = asyncio.Lock()
        self._value: Any = None
        self._until = 0.0

    async def of(self, read: Callable[[], Awaitable[T]], seconds: float) -> T:
        """What was read, at most so many seconds ago."""
        async with self._one_by_one:
            if time.monotonic() >= self._until:
                self._value = await read()
                self._until = time.monotonic() + seconds
            value: T = self._value
            return value


@router.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get(
    "/readyz", responses={503: {"description": "Not ready; the body says what is missing."}}
)
async def readyz(request: Request, runtime: RuntimeDep) -> JSONResponse:
    """Whether requests are answered; 503 with the reason when they are not.

    It is found out at most once a second. A database that takes nothing in, because its disk is
    full or it is read-only, is no such reason: what is stored is served, and an upload is answered
    503.

    The service stays ready while Redis is down (`queue` says so; its work is found later), after a
    newer version has migrated the database (`schema` says so), and when others write with an
    encryption key that it was not given (`encryption` says so; what it cannot open is refused).
    `warnings` counts what is amiss with the settings or the summariser; `precis status` says it.
    """
    kept = cast(Kept, request.app.state.readiness)
    ready, body = await kept.of(lambda: _readiness(runtime), _KEPT)
    return JSONResponse(body, 200 if ready else 503)


async def _readiness(runtime: Runtime) -> tuple[bool, dict[str, object]]:
    (ready, state), queue = await asyncio.gather(_database(runtime), _queue(runtime))
    body: dict[str, object] = {"status": "ok" if ready else "not ready", **state, "queue": queue}
    if runtime.worker_context.warnings:
        # How many only: they name addresses, and this page is open to anybody.
        body["warnings"] = f"{len(runtime.worker_context.warnings)}: see `precis status`"
    return ready, body


async def _database(runtime: Runtime) -> tuple[bool, dict[str, str]]:
    """Whether requests can be answered from the database, and its state in words."""
    try:
        async with asyncio.timeout(_PATIENCE):
            ready, schema = await _schema(runtime)
            missing = await runtime.database.keyring.missing_keys() if ready else None
    except outage.FAILURES as error:
        return False, {"database": _no_answer(error), "schema": "unknown"}
    state = {"database": "ok", "schema": schema}
    return ready, state | ({"encryption": missing} if missing else {})


async def _schema(runtime: Runtime) -> tuple[bool, str]:
    """Whether this version works on the database's schema, and why it is not its own."""
    try:
        await check_schema(runtime.database.hot)
    except SchemaNewer as error:
        # Still ready: during an upgrade, a balancer must not take out all old replicas at once.
        return True, str(error)
    except SchemaError as error:
        return False, str(error)
    return True, "ok"


async def _queue(runtime: Runtime) -> str:
    """The state of Redis in words."""
    try:
        await runtime.queue.ping()
    except (RedisError, OSError, TimeoutError) as error:
        return _no_answer(error)
    return "ok"


def _no_answer(error: Exception) -> str:
    # The class only, because this page is open to anybody who reaches the port.
    return f"no answer: {type(error).__name__}"


@router.get("/version")
async def version() -> dict[str, str]:
    """The running version."""
    return {"version": __version__}
