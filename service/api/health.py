"""Whether the service is alive and ready, and its version. These routes need no key."""

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from service import __version__
from service.api.deps import RuntimeDep
from service.errors import SchemaError, SchemaNewer
from service.runtime import Runtime
from service.storage.database import check_schema

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Version(BaseModel):
    """The running version."""

    version: str


@router.get("/livez")
async def livez() -> Alive:
    """The process answers."""
    return Alive()


@router.get(
    "/readyz", responses={503: {"description": "Not ready; the body says what is missing."}}
)
async def readyz(runtime: RuntimeDep) -> JSONResponse:
    """Whether requests are answered; 503 with the reason when they are not.

    The service stays ready while Redis is down (`queue` says so; its work is found later), and
    after a newer version has migrated the database (`schema` says so).
    """
    ready, state = await _database(runtime)
    state["queue"] = await _queue(runtime)
    if ready:
        return JSONResponse({"status": "ok", **state}, 200)
    return JSONResponse({"status": "not ready", **state}, 503)


async def _database(runtime: Runtime) -> tuple[bool, dict[str, str]]:
    """Whether requests can be answered from the database, and its state in words."""
    try:
        await check_schema(runtime.database.engine)
    except SchemaNewer as error:
        # Still ready: during an upgrade, a balancer must not take out all old replicas at once.
        return True, {"database": "ok", "schema": str(error)}
    except SchemaError as error:
        return False, {"database": "ok", "schema": str(error)}
    except (SQLAlchemyError, OSError) as error:
        return False, {"database": _no_answer(error), "schema": "unknown"}
    return True, {"database": "ok", "schema": "ok"}


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
async def version() -> Version:
    """The running version."""
    return Version(version=__version__)
