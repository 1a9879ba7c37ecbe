"""Whether the service lives, is ready, and which version it is. Open to anybody who reaches the port."""

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from service import __version__
from service.api.deps import RuntimeDep
from service.errors import SchemaError, SchemaNewer
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

    They are while the queue is away (`queue` says so; the work is found later), and after a newer
    version has migrated the database, so that an upgrade takes no replica out before its turn.
    """
    state = {"database": "ok", "schema": "ok", "queue": "ok"}
    ready = True
    try:
        await check_schema(runtime.database.engine)
    except SchemaNewer as error:
        state["schema"] = str(error)
    except SchemaError as error:
        ready, state["schema"] = False, str(error)
    except (SQLAlchemyError, OSError) as error:
        ready, state["database"], state["schema"] = (
            False,
            f"no answer: {type(error).__name__}",
            "unknown",
        )
    try:
        await runtime.queue.ping()
    except (RedisError, OSError, TimeoutError) as error:
        state["queue"] = f"no answer: {type(error).__name__}"
    return JSONResponse({"status": "ok" if ready else "not ready", **state}, 200 if ready else 503)


@router.get("/version")
async def version() -> Version:
    """The running version."""
    return Version(version=__version__)
