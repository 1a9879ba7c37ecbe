"""Operators' routes for the API keys of their own tenant."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field, StringConstraints

from service.api.deps import OperatorDep, OperatorKey, RuntimeDep, documented, read_body
from service.api.wire import Strict
from service.processes.intake import CONTROL
from service.storage.keys import Key, Scope
from service.usecases import keys

router = APIRouter(prefix="/v1/keys", tags=["operators"])

KeyId = Annotated[int, Path(ge=1, le=2**62, description="From the list of keys.")]
Name = Annotated[str, StringConstraints(max_length=200, pattern=rf"^[^{CONTROL}]*$")]


class CreateKeyRequest(Strict):
    """A key to make, in the tenant of the key that asks."""

    scope: Scope = Field(
        description="`filter`: for the filter in Open WebUI; `operator`: for the REST API."
    )
    name: Name = Field("", description="A name by which lists and the audit log tell it.")


class KeyRow(BaseModel):
    """A key as it is stored, by its first characters; the key itself is not stored."""

    id: int
    scope: Scope
    name: str
    prefix: str
    created_at: datetime
    revoked_at: datetime | None


class KeyList(BaseModel):
    """All keys of the tenant, revoked ones too, the oldest first."""

    keys: list[KeyRow]


class MadeKey(KeyRow):
    """A new key."""

    key: str = Field(description="The key itself, told this once.")


@router.get("")
async def list_keys(operator: OperatorDep, runtime: RuntimeDep) -> KeyList:
    """Lists the keys of this tenant, without the keys themselves."""
    found = await keys.list_keys(runtime.database.engine, operator.tenant)
    return KeyList(keys=[KeyRow(**_row(key)) for key in found])


@router.post("", status_code=201, openapi_extra=documented(CreateKeyRequest))
async def create_key(
    key: OperatorKey, runtime: RuntimeDep, request: Request, response: Response
) -> MadeKey:
    """Makes a key of this tenant. The answer is the only place where the key itself is told."""
    body = await read_body(request, CreateKeyRequest)
    engine = runtime.database.engine
    made = await keys.create(engine, key.tenant_name, key.actor, body.scope, body.name)
    response.headers["Cache-Control"] = "no-store"
    return MadeKey(key=made.key, **_row(made.row))


@router.delete("/{key_id}", status_code=204)
async def revoke_key(key_id: KeyId, operator: OperatorDep, runtime: RuntimeDep) -> None:
    """Revokes a key of this tenant; running services reject it within ten seconds."""
    await keys.revoke(runtime.database.engine, operator, key_id)


def _row(key: Key) -> dict[str, object]:
    return {name: getattr(key, name) for name in KeyRow.model_fields}
