"""API keys of the tenant: made, listed, revoked."""

from typing import Final, cast, get_args

from fastapi import APIRouter, Response

from service.api.deps import RuntimeDep
from service.api.keys import KeyId
from service.errors import Unprocessable
from service.storage.keys import Scope
from service.usecases import keys
from service.web.page import PageRoute, go_to, render
from service.web.session import FormDep, SignedInDep

router = APIRouter(prefix="/keys", route_class=PageRoute, include_in_schema=False)

_LONGEST_NAME: Final = 100


@router.get("")
async def list_keys(signed_in: SignedInDep, runtime: RuntimeDep) -> Response:
    """The keys, without the keys themselves."""
    found = await keys.list_keys(runtime.database.engine, signed_in.by.tenant)
    return render("keys.html", who=signed_in, place="/keys", keys=found, made="")


@router.post("")
async def create(signed_in: SignedInDep, runtime: RuntimeDep, form: FormDep) -> Response:
    """Makes a key, and shows it this once."""
    scope, name = str(form.get("scope", "")), str(form.get("name", "")).strip()
    if scope not in get_args(Scope):
        raise Unprocessable(f"there is no scope {scope!r}; choose one of the list")
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise Unprocessable(f"give the key a name of at most {_LONGEST_NAME} printable characters")
    engine = runtime.database.engine
    made = await keys.create(
        engine, signed_in.tenant_name, signed_in.by.actor, cast(Scope, scope), name
    )
    # No redirect as after other forms: the key would have to be kept until the next request.
    found = await keys.list_keys(engine, signed_in.by.tenant)
    return render("keys.html", who=signed_in, place="/keys", keys=found, made=made.key)


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
