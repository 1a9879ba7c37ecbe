"""Checks the key of a request, and whether it opens the route.

In: a request, and the scope that a route needs. Out: the key's row. `caller` is the way, in the
order of its steps.
"""

import re
from functools import lru_cache
from typing import cast

import structlog
from fastapi import Request

from service import LEAST_FILTER
from service.api.key_cache import KeyCache
from service.errors import BadRequest, Problem, ProblemType
from service.names import KeyScope
from service.runtime import Runtime
from service.storage import keys
from service.storage.keys import Key

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", re.ASCII)

log = structlog.get_logger(__name__)


async def authenticate(request: Request, scope: KeyScope) -> Key:
    """The key of a request. A filter that sends its version has to be new enough as well.

    Raises:
        Problem: UNAUTHORISED: the key is missing, unknown, revoked or expired.
        Problem: WRONG_SCOPE: it does not open what needs this `scope`.
        Problem: FILTER_TOO_OLD: `Precis-Filter` names a version below `LEAST_FILTER`.
        BadRequest: that header is no version.
    """
    sent_key = _read_key(request)
    key = await _find_key(request, sent_key)
    _check_scope(request, key, scope)
    version = _check_filter_version(request, scope)
    get_runtime(request).counting.note_use(key.id, version)
    return key


def _read_key(request: Request) -> str:
    """The key as it was sent."""
    kind, _, sent_key = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        sent_key = request.headers.get("x-api-key", "")
    if sent_key.strip():
        return sent_key.strip()
    raise Problem(
        "send an API key as `Authorization: Bearer <key>`, or as `X-Api-Key`",
        ProblemType.UNAUTHORISED,
    )


async def _find_key(request: Request, sent_key: str) -> Key:
    """The row of a key that is neither unknown nor revoked nor expired."""
    # Wrong keys have no limit: a key is 256 random bits, which nobody guesses, and each costs one
    # read by an index.
    cache = cast(KeyCache, request.app.state.keys)
    key = await cache.find(get_runtime(request).database, sent_key)
    if key is not None and key.in_use:
        return key
    log_refusal(request, key, "key.refused", _explain_refusal(key))
    raise Problem(
        "this API key is unknown, revoked or expired; make one with `precis keys create`",
        ProblemType.UNAUTHORISED,
    )


def _explain_refusal(key: Key | None) -> str:
    if key is None:
        return "unknown"
    return "revoked" if key.revoked_at else "expired"


def _check_scope(request: Request, key: Key, scope: KeyScope) -> None:
    if scope in keys.OPENS[key.scope]:
        return
    problem = Problem(
        f"this needs a key with scope {scope!r}, but the key {key.prefix}… has"
        f" {key.scope!r}; make one with `precis keys create --scope {scope}`",
        ProblemType.WRONG_SCOPE,
    )
    log_refusal(request, key, "key.refused", problem.type)
    raise problem


def log_refusal(request: Request, key: Key | None, event: str, why: str) -> None:
    """Logs that a key was refused, with its row's tenant, name and prefix if it has one.

    The address is the client's; behind a proxy that uvicorn trusts, the one that it forwards.
    """
    client = request.scope.get("client")
    address = client[0] if client else ""
    if key is None:
        log.warning(event, why=why, address=address)
    else:
        log.warning(event, why=why, address=address, tenant=key.tenant_name, key=key.by.actor)


def _check_filter_version(request: Request, scope: KeyScope) -> str:
    """The version of the filter or events function that asks, which has to be new enough.

    Empty for other clients, which send none and are taken as they are.
    """
    if scope not in ("filter", "events"):
        return ""
    version = request.headers.get("precis-filter", "")
    release = _parse_version(version) if version else _LEAST
    if release < _LEAST:
        raise Problem(
            f"the filter in Open WebUI is {version}, but this service needs {LEAST_FILTER} or"
            " newer; run `precis install-filter`, or paste the file of this release",
            ProblemType.FILTER_TOO_OLD,
            least_filter=LEAST_FILTER,
        )
    return version


# Every request of a filter asks. Bounded, because anybody with a key may send any version.
@lru_cache(maxsize=64)
def _parse_version(version: str) -> tuple[int, int, int]:
    """A version as numbers that compare."""
    numbers = _VERSION.fullmatch(version)
    if not numbers:
        raise BadRequest(
            f"the header `Precis-Filter` is not a version; send one such as {LEAST_FILTER}"
        )
    return int(numbers[1]), int(numbers[2]), int(numbers[3])


_LEAST = _parse_version(LEAST_FILTER)


def get_runtime(request: Request) -> Runtime:
    """The application's open resources."""
    return cast(Runtime, request.app.state.runtime)
