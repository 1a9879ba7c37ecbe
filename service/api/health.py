"""Whether the service is alive and ready, and its version. These routes need no key."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from redis.exceptions import RedisError

from service import __version__
from service.api.deps import RuntimeDep
from service.errors import SchemaError, SchemaNewer
from service.runtime import Runtime
from service.storage import database
from service.storage.database import check_schema

T = TypeVar("T")

router = APIRouter(tags=["health"])

_KEPT = 1.0  # seconds that an answer of `/readyz` is given again
_PATIENCE = 2.0  # seconds that `/readyz` waits for the database


class Cache(Generic[T]):
    """A value that takes milliseconds to read, and is answered again for a while."""

    def __init__(self) -> None:
        # Requests that come meanwhile share one read.
        self._one_by_one = asyncio.Lock()
        self._value: T | None = None
        self._until = 0.0

    async def get(self, read: Callable[[], Awaitable[T]], seconds: float) -> T:
        """The value, read at most so many seconds ago."""
        async with self._one_by_one:
            if self._value is None or time.monotonic() >= self._until:
                self._value = await read()
                self._until = time.monotonic() + seconds
            return self._value


@router.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get(
    "/readyz", responses={503: {"description": "Not ready; the body says what is missing."}}
)
async def readyz(request: Request, runtime: RuntimeDep) -> JSONResponse:
    """Whether requests are answered; 503 with the reason when they are not.

    The answer is made at most once a second. The service stays ready while the database cannot
    write, because its disk is full or it is read-only: stored summaries serve, and uploads are
    answered 503.

    It also stays ready while Redis is down (`queue` says so, and workers find the work later),
    after a newer version has migrated the database (`schema` says so), and while others write with
    an encryption key that this service does not have (`encryption` says so, and requests for such
    texts are refused).

    `warnings` counts problems of the settings; `precis status` names them.
    """
    cache = cast(Cache[tuple[bool, dict[str, object]]], request.app.state.readiness)
    ready, body = await cache.get(lambda: _check_readiness(runtime), _KEPT)
    return JSONResponse(body, 200 if ready else 503)


async def _check_readiness(runtime: Runtime) -> tuple[bool, dict[str, object]]:
    checks = _check_database(runtime), _check_queue(runtime)
    (ready, state), queue = await asyncio.gather(*checks)
    status = "ok" if ready else "not ready"
    body: dict[str, object] = {"status": status, **state, "queue": queue}
    warnings = runtime.worker_context.warnings
    if warnings:
        # How many only: they name addresses, and this page is open to anybody.
        body["warnings"] = f"{len(warnings)}: see `precis status`"
    return ready, body


async def _check_database(runtime: Runtime) -> tuple[bool, dict[str, str]]:
    """Whether the database can answer requests, and its state in words."""
    try:
        async with asyncio.timeout(_PATIENCE):
            ready, schema = await _check_schema(runtime)
            missing = await runtime.database.keyring.missing_keys() if ready else None
    except database.FAILURES as error:
        return False, {"database": _describe_no_answer(error), "schema": "unknown"}
    state = {"database": "ok", "schema": schema}
    if missing:
        state["encryption"] = missing
    return ready, state


async def _check_schema(runtime: Runtime) -> tuple[bool, str]:
    """Whether this version works on the schema of the database, and how that one differs."""
    try:
        await check_schema(runtime.database.hot)
    except SchemaNewer as error:
        # Still ready: during an upgrade, a balancer must not take out all old replicas at once.
        return True, str(error)
    except SchemaError as error:
        return False, str(error)
    return True, "ok"


async def _check_queue(runtime: Runtime) -> str:
    """The state of Redis in words."""
    try:
        await runtime.queue.ping()
    except (RedisError, OSError) as error:
        return _describe_no_answer(error)
    return "ok"


def _describe_no_answer(error: Exception) -> str:
    # The class only, because this page is open to anybody who reaches the port.
    return f"no answer: {type(error).__name__}"


@router.get("/version")
async def version() -> dict[str, str]:
    """The running version."""
    return {"version": __version__}
