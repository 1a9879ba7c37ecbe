"""API keys of the tenant: made, listed, revoked."""

from typing import Final, cast, get_args

from fastapi import APIRouter, Response
from starlette.datastructures import FormData

from service.api.deps import RuntimeDep
from service.api.keys import KeyId
from service.errors import Unprocessable
from service.names import MOST_DAYS, KeyScope
from service.usecases import keys
from service.usecases.keys import MOST_NETWORKS, NewKey
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
    scope, name = str(form.get("scope", "")), str(form.get("name", "")).strip()
    if scope not in get_args(KeyScope):
        raise Unprocessable(f"there is no scope {scope!r}; choose one of the list")
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise Unprocessable(f"give the key a name of at most {_LONGEST_NAME} printable characters")
    engine = runtime.database.engine
    new_key = NewKey(
        cast(KeyScope, scope), name, _days(str(form.get("expires", ""))), _networks(form)
    )
    key = await keys.create(engine, signed_in.tenant_name, signed_in.by.actor, new_key)
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


def _days(text: str) -> int | None:
    """Days until a key expires, from the form; None when it is to live on."""
    if not text.strip():
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_DAYS):
        raise Unprocessable(f"a key expires after 1 to {MOST_DAYS} days, or leave the field empty")
    return int(text)


def _networks(form: FormData) -> list[str]:
    networks = str(form.get("networks", "")).replace(",", " ").split()
    if len(networks) > MOST_NETWORKS:
        raise Unprocessable(f"a key has at most {MOST_NETWORKS} networks")
    return networks
