"""Who calls: the key of a request, and whether it opens what is asked for.

In: a request, and the scope that a route needs. Out: the key's row. A key is remembered for some
seconds, so that a request does not cost a second read, and read again beside the requests, so that
those of a key in use do not wait for that.
"""

import asyncio
import re
import time
from functools import lru_cache
from typing import Final, NamedTuple, cast

import structlog
from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError

from service import LEAST_FILTER, metrics
from service.api.limits import Limiter
from service.errors import (
    BadRequest,
    FilterTooOld,
    Unauthorised,
    WrongNetwork,
    WrongScope,
)
from service.names import Scope
from service.runtime import Runtime
from service.storage import keys, outage
from service.storage.database import Database
from service.storage.keys import Key
from service.usecases import refusals
from service.usecases.key_uses import KeyUses
from service.usecases.keys import is_within
from service.usecases.operate import Operator

# Seconds that a key is remembered; a revoked key works that much longer at most.
_KNOWN_FOR: Final = 10.0
_READ_AGAIN: Final = 5.0  # seconds after which the next request has a key read again beside it
_MOST_KNOWN: Final = 1000
_LONGEST_PERSON: Final = 100  # characters
_AWAY: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, *outage.AWAY)

log = structlog.get_logger(__name__)

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", re.ASCII)


def runtime_of(request: Request) -> Runtime:
    """The application's open resources."""
    return cast(Runtime, request.app.state.runtime)


def header(request: Request, name: bytes) -> str:
    """The first header of a name in lower case, or an empty text."""
    # Starlette's own lookup takes ten times as long.
    for key, value in request.scope["headers"]:
        if key == name:
            return cast(bytes, value).decode("latin-1")
    return ""


def address_of(request: Request) -> str:
    """The client's address; behind a proxy that uvicorn trusts, the one that it forwards."""
    client = request.scope.get("client")
    return client[0] if client else ""


class _Known(NamedTuple):
    """A key in use, and when its row was read; it is believed until then."""

    key: Key
    read: float
    until: float


class KeyRing:
    """Keys that were used recently, and when.

    Unknown keys are not remembered, else anybody could fill the memory. A key that was known a
    while ago is read again however many wrong ones come from its address.
    """

    def __init__(self, uses: KeyUses, limiter: Limiter) -> None:
        self.uses = uses
        self.limiter = limiter
        self._known: dict[bytes, _Known] = {}
        self._reading: dict[bytes, asyncio.Task[None]] = {}

    async def find(self, request: Request, key: str) -> Key:
        """The key's row, at most `_KNOWN_FOR` seconds old.

        Raises:
            Unauthorised: it is unknown, revoked or expired.
            TooMany: it is unknown here, and its client's address had too many wrong ones.
        """
        name, now = keys.hash_of(key), time.monotonic()
        database = runtime_of(request).database
        known = self._known.get(name)
        if known and known.until > now:
            if known.read + _READ_AGAIN <= now and name not in self._reading:
                self._reading[name] = asyncio.create_task(self._read_again(database, name, key))
            return known.key
        if known is None:
            await self.limiter.check_stranger(address_of(request))
        found = await self._read(database, name, key)
        if found is None or not found.in_use:
            await self._refuse(request, found)
        else:
            return found
        raise Unauthorised(
            "this API key is unknown, revoked or expired; make one with `precis keys create`"
        )

    async def _read(self, database: Database, name: bytes, key: str) -> Key | None:
        """The key's row as it is stored, which is remembered if it is in use."""
        now = time.monotonic()
        found = await keys.known(database.reads, key)
        self._known.pop(name, None)
        if found and found.in_use:
            self._remember(name, found, now)
        return found

    async def _read_again(self, database: Database, name: bytes, key: str) -> None:
        try:
            await self._read(database, name, key)
        except _AWAY as error:  # a request says so, when the key is not believed any more
            log.warning("key.not_read", error=type(error).__name__)
        finally:
            del self._reading[name]

    async def _refuse(self, request: Request, found: Key | None) -> None:
        """Counts and notes a key that opens nothing, and whose it was if that is known."""
        self.limiter.wrong_key(address_of(request))
        why = "unknown"
        if found is not None:
            why = "revoked" if found.revoked_at else "expired"
        await self.note_refusal(request, found, "key.refused", why)

    async def note_refusal(
        self, request: Request, found: Key | None, action: str, why: str
    ) -> None:
        """Notes a refused key: in its tenant's audit log, or if nobody knows it in the log.

        At most once in a minute for an address, so that nobody can fill either.
        """
        address = address_of(request)
        if not self.limiter.is_first_refusal(address):
            return
        if found is None:
            log.warning(action, address=address, why=why)
            return
        engine = runtime_of(request).database.engine
        await refusals.note(engine, found, action, why, address)

    def _remember(self, name: bytes, key: Key, now: float) -> None:
        # Clearing costs one read for each key in use, and spares a bookkeeping of ages.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        left = _KNOWN_FOR if key.seconds_left is None else min(_KNOWN_FOR, key.seconds_left)
        self._known[name] = _Known(key, now, now + left)


async def caller(request: Request, scope: Scope) -> Key:
    """The key of a request. A filter that sends its version has to be new enough as well.

    Raises:
        Unauthorised: the key is missing, unknown, revoked or expired.
        TooMany: too many were wrong from this address, or too many requests sent with this one.
        WrongNetwork: it may not be used from the client's address.
        WrongScope: it does not open what needs this `scope`.
        FilterTooOld: the header `Precis-Filter` names a version below `LEAST_FILTER`.
        BadRequest: that header is no version.
    """
    ring = cast(KeyRing, request.app.state.keys)
    kind, _, given = header(request, b"authorization").partition(" ")
    if kind.lower() != "bearer" or not given:
        await ring.limiter.check_stranger(address_of(request))
        ring.limiter.wrong_key(address_of(request))
        raise Unauthorised("send an API key as `Authorization: Bearer <key>`")
    found = await ring.find(request, given.strip())
    ring.limiter.check_key(found.id)
    try:
        _check_use(found, scope, address_of(request))
    except (WrongNetwork, WrongScope) as refused:
        await ring.note_refusal(request, found, "key.refused", refused.type)
        raise
    is_of_filter = scope in ("filter", "events")
    version = header(request, b"precis-filter") if is_of_filter else ""
    if is_of_filter:
        _check_filter(version)
    ring.uses.note(found.id, version)
    return found


def _check_use(key: Key, scope: Scope, address: str) -> None:
    """Whether a key opens what needs a scope, from an address."""
    if not is_within(address, key.networks):
        raise WrongNetwork(
            f"the key {key.prefix}… may not be used from {address}: `precis keys list` shows its"
            " networks, and `precis keys create --from` makes a key for others"
        )
    if scope not in keys.OPENS[key.scope]:
        raise WrongScope(
            f"this needs a key with scope {scope!r}, but the key {key.prefix}… has"
            f" {key.scope!r}; make one with `precis keys create --scope {scope}`"
        )


def operator_of(request: Request, key: Key) -> Operator:
    """Who acts with an operator's key, for the audit log.

    Raises:
        BadRequest: as `told_by`.
    """
    return Operator(key.tenant, key.actor + told_by(request))


def told_by(request: Request) -> str:
    """Who acts, as an operator's proxy tells it, marked as told; empty when it tells nothing.

    Raises:
        BadRequest: the header `Precis-Actor` is too long, or has other characters than ASCII's.
    """
    person = header(request, b"precis-actor").strip()
    if not person:
        return ""
    if len(person) > _LONGEST_PERSON or not (person.isascii() and person.isprintable()):
        raise BadRequest(
            f"the header `Precis-Actor` has at most {_LONGEST_PERSON} characters, all of them"
            " printable ASCII"
        )
    return f" (told: {person})"


def _check_filter(version: str) -> None:
    # Clients other than our two functions send no version, and are taken as they are.
    release = _release(version) if version else _LEAST
    metrics.filter_asked(version)
    if release < _LEAST:
        raise FilterTooOld(
            f"the filter in Open WebUI is {version}, but this service needs {LEAST_FILTER} or"
            " newer; run `precis install-filter`, or paste the file of this release",
            least_filter=LEAST_FILTER,
        )


# Every request of a filter asks. Bounded, because anybody with a key may send any version.
@lru_cache(maxsize=64)
def _release(version: str) -> tuple[int, int, int]:
    """A version as numbers that compare."""
    numbers = _VERSION.fullmatch(version)
    if not numbers:
        raise BadRequest(
            f"the header `Precis-Filter` is not a version; send one such as {LEAST_FILTER}"
        )
    return int(numbers[1]), int(numbers[2]), int(numbers[3])


_LEAST = _release(LEAST_FILTER)
