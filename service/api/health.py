"""Whether the service lives, is ready, and which version it is. Open to anybody who reaches the port."""

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from service import __version__
from service.api.deps import RuntimeDep
from service.errors import SchemaError
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


@router.get("/readyz", responses={503: {"description": "Not ready; the body says what is missing."}})
async def readyz(runtime: RuntimeDep) -> JSONResponse:
    """Database, schema and queue answer; 503 with the reasons when one does not."""
    state = {"database": "ok", "schema": "ok", "queue": "ok"}
    try:
        await check_schema(runtime.database.engine)
    except SchemaError as error:
        state["schema"] = str(error)
    except (SQLAlchemyError, OSError) as error:
        state["database"] = f"no answer: {type(error).__name__}"
        state["schema"] = "unknown"
    try:
        await runtime.doorbell.ping()
    except (RedisError, OSError, TimeoutError) as error:
        state["queue"] = f"no answer: {type(error).__name__}"
    ready = set(state.values()) == {"ok"}
    return JSONResponse({"status": "ok" if ready else "not ready", **state}, 200 if ready else 503)


@router.get("/version")
async def version() -> Version:
    """The running version."""
    return Version(version=__version__)
