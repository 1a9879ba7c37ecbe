"""How much a tenant and a user may store: chats, and bytes of messages as they were sent.

What is stored is added up by the database, once a minute for each tenant and user who sends
something, and beside their requests; in between, a process adds what it takes itself. So a quota
costs an ingest nothing, and several processes may exceed it by what they take in a minute.
"""

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from service.errors import OverQuota
from service.settings import Settings
from service.storage import chats, outage
from service.usecases.ingest import Transcript

_KEPT: Final = 60.0  # seconds that a sum is used
_MOST_KEPT: Final = 20_000  # sums
_AWAY: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, *outage.AWAY)

log = structlog.get_logger(__name__)


class _Quota(NamedTuple):
    """Most chats and bytes; 0 means any number."""

    chats: int
    bytes: int


class _Whose(NamedTuple):
    """A tenant, or one user in it."""

    tenant: int
    user: str | None


@dataclass(slots=True)
class _Sum:
    chats: int
    bytes: int
    until: float
    seen: set[str]
    """Chats that were handed over since, which count already."""


class Quotas:
    """The quotas, and what this process knows of their use. Only for the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._of_tenant = _Quota(settings.max_tenant_chats, settings.max_tenant_bytes)
        self._of_user = _Quota(settings.max_user_chats, settings.max_user_bytes)
        self._sums: dict[_Whose, _Sum] = {}
        self._reading: dict[_Whose, asyncio.Task[None]] = {}

    async def check(self, engine: AsyncEngine, handed: Transcript) -> None:
        """Before messages are stored.

        Raises:
            OverQuota: they would be too many bytes, or their chat is new and one too many.
        """
        whose = (
            (_Whose(handed.tenant, None), self._of_tenant, "TENANT"),
            (_Whose(handed.tenant, handed.user), self._of_user, "USER"),
        )
        for one, quota, name in whose:
            if any(quota):
                await self._check(engine, one, quota, name, handed)

    async def _check(
        self, engine: AsyncEngine, whose: _Whose, quota: _Quota, name: str, handed: Transcript
    ) -> None:
        used = await self._sum(engine, whose)
        size = sum(len(message.text) for message in handed.messages)
        whom = f"this {name.lower()}"
        if quota.bytes and used.bytes + size > quota.bytes:
            raise OverQuota(
                f"{whom} has stored {used.bytes} of {quota.bytes} bytes; delete chats, or raise"
                f" PRECIS_MAX_{name}_BYTES"
            )
        if quota.chats and handed.chat not in used.seen and await self._is_new(engine, handed):
            if used.chats >= quota.chats:
                raise OverQuota(
                    f"{whom} has {used.chats} chats, and {quota.chats} are allowed; delete some, or"
                    f" raise PRECIS_MAX_{name}_CHATS"
                )
            used.chats += 1
        used.seen.add(handed.chat)
        used.bytes += size

    @staticmethod
    async def _is_new(engine: AsyncEngine, handed: Transcript) -> bool:
        async with engine.connect() as connection:
            return await chats.find(connection, handed.tenant, handed.chat) is None

    async def _sum(self, engine: AsyncEngine, whose: _Whose) -> _Sum:
        found = self._sums.get(whose)
        if found and found.until > monotonic():
            return found
        reading = self._reading.get(whose)
        if reading is None:
            reading = asyncio.create_task(self._read(engine, whose))
            self._reading[whose] = reading
        if found:
            return found
        await asyncio.shield(reading)
        return self._sums.get(whose) or _Sum(0, 0, 0, set())

    async def _read(self, engine: AsyncEngine, whose: _Whose) -> None:
        try:
            async with engine.connect() as connection:
                count, size = await chats.used(connection, whose.tenant, whose.user)
        except _AWAY as error:  # the ingest itself says so
            log.warning("quotas.not_read", error=type(error).__name__)
            return
        finally:
            self._reading.pop(whose, None)
        if len(self._sums) >= _MOST_KEPT:
            self._sums.clear()
        self._sums[whose] = _Sum(count, size, monotonic() + _KEPT, set())

    def forget(self) -> None:
        """Adds up again at the next ingest."""
        self._sums.clear()
