"""API keys of the tenant: made, listed, revoked."""

from typing import Final

from fastapi import APIRouter, Response
from pydantic import ValidationError

from service.api import problems
from service.api.deps import RuntimeDep
from service.api.keys import CreateKeyRequest, KeyId
from service.errors import Unprocessable
from service.usecases import keys
from service.web.page import PageRoute, go_to, render
from service.web.session import FormDep, SignedInDep, check_change

router = APIRouter(prefix="/keys", route_class=PageRoute, include_in_schema=False)

_LONGEST_NAME: Final = 100
_GRACE: Final = 24  # hours


@router.get("")
async def list_keys(signed_in: SignedInDep, runtime: RuntimeDep) -> Response:
    """The keys, without the keys themselves."""
    check_change(signed_in)
    rows = await keys.list_keys(runtime.database.engine, signed_in.by.tenant)
    return render("keys.html", who=signed_in, place="/keys", keys=rows, made="")


@router.post("")
async def create(signed_in: SignedInDep, runtime: RuntimeDep, form: FormDep) -> Response:
    """Makes a key, and shows it this once."""
    name = str(form.get("name", "")).strip()
    # A program may know its key by the number; people need a name that they can read.
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise Unprocessable(f"give the key a name of at most {_LONGEST_NAME} printable characters")
    fields = {
        "scope": form.get("scope", ""),
        "name": name,
        "expires_days": str(form.get("expires", "")).strip() or None,
        "networks": str(form.get("networks", "")).replace(",", " ").split(),
    }
    try:
        body = CreateKeyRequest.model_validate(fields)
    except ValidationError as error:
        raise problems.from_pydantic(error) from None
    engine = runtime.database.engine
    limits = body.scope, body.name, body.expires_days, body.networks
    key = await keys.create(engine, signed_in.tenant_name, signed_in.by.actor, *limits)
    # No redirect as after other forms: the key would have to be kept until the next request.
    rows = await keys.list_keys(engine, signed_in.by.tenant)
    return render("keys.html", who=signed_in, place="/keys", keys=rows, made=key.key)


@router.post("/{identity}/rotate")
async def rotate(
    identity: int, signed_in: SignedInDep, runtime: RuntimeDep, _: FormDep
) -> Response:
    """Makes a key like this one, which ends after a day, and shows it this once."""
    engine = runtime.database.engine
    key = await keys.rotate(engine, signed_in.by, identity, _GRACE)
    rows = await keys.list_keys(engine, signed_in.by.tenant)
    return render("keys.html", who=signed_in, place="/keys", keys=rows, made=key.key)


@router.post("/{identity}/revoke")
async def revoke(
    identity: KeyId,
    signed_in: SignedInDep,
    runtime: RuntimeDep,
    _: FormDep,
) -> Response:
    """Revokes a key; its sessions end with it."""
    await keys.revoke(runtime.database.engine, signed_in.by, identity)
    return go_to("/keys")
