"""Operators' routes for the API keys of their own tenant."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request
from msgspec import Meta
from pydantic import BaseModel

from service.api.bodies import document_body, read_body
from service.api.deps import KeeperKey, RuntimeDep
from service.names import MOST_DAYS, KeyScope
from service.processes.intake import CONTROL
from service.storage.keys import Key
from service.usecases import keys
from service.usecases.keys import MadeKey

router = APIRouter(prefix="/v1/keys", tags=["operators"])

KeyId = Annotated[int, Path(ge=1, le=2**62, description="From the list of keys.")]


class CreateKeyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to make, in the tenant of the key that asks."""

    scope: Annotated[
        KeyScope,
        Meta(
            description="`filter`: for the filter and the tool in Open WebUI; `events`: for the"
            " events function; `operator:read`: to look; `operator`: for all of the REST API."
        ),
    ]
    name: Annotated[
        str,
        Meta(
            max_length=200,
            pattern=rf"^[^{CONTROL}]*$(?!\n)",
            description="A name by which lists and the audit log tell it.",
        ),
    ] = ""
    expires_days: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_DAYS)] | None,
        Meta(description="Days until it expires; null: never."),
    ] = None


class KeyList(BaseModel):
    """All keys of the tenant, revoked and expired ones too, the oldest first."""

    keys: list[Key]


@router.get("")
async def list_keys(key: KeeperKey, runtime: RuntimeDep) -> KeyList:
    """Lists the keys of this tenant, without the keys themselves."""
    return KeyList(keys=await keys.list_keys(runtime.database.engine, key.tenant))


@router.post("", status_code=201, openapi_extra=document_body(CreateKeyRequest))
async def create_key(key: KeeperKey, runtime: RuntimeDep, request: Request) -> MadeKey:
    """Makes a key of this tenant. The answer is the only place where the key itself is told."""
    body = await read_body(request, CreateKeyRequest)
    limits = body.scope, body.name, body.expires_days
    return await keys.create_key(runtime.database.engine, key.tenant_name, key.by.actor, *limits)


@router.delete("/{key_id}", status_code=204)
async def revoke_key(key_id: KeyId, key: KeeperKey, runtime: RuntimeDep) -> None:
    """Revokes a key of this tenant; running services reject it within ten seconds."""
    await keys.revoke_key(runtime.database.engine, key.by, key_id)
