"""A worker's claim on a chat: the lease, the run, and what the worker works with.

There is a lease for code's work and one for the model's, so both may be done at the same time.
Workers claim the chat whose turn it is, and renew the lease while they work; `outcomes` gives it
back. The database decides who holds a lease, and it fences all that is published. So a lease that
expires too early costs a call and never spoils a summary.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from service import request_ids
from service.processes import Texts
from service.settings import Settings
from service.storage import prompts, runs, sealing, work
from service.storage.jobs import Endpoint
from service.storage.prompts import Basis
from service.storage.tables import ChatKey
from service.summarising.reading import Summariser
from service.usecases.compress.host_models import make_endpoint

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The resources of a worker, the same for every chat.

    Attributes:
        engine: the database.
        slow: the database for what may take minutes, as in `Database`.
        settings: the operator's.
        summariser: asked for summaries; without one, code alone writes them.
        texts: the processes in which texts are read, because any may be too hard.
        worker: names this process to operators.
        others: the summarisers of models that have one of their own. They share the breaker and
            the bound of `summariser`, because they stand at the same address.
        warnings: faults of the settings, as the start found them.
    """

    engine: AsyncEngine
    slow: AsyncEngine
    settings: Settings
    summariser: Summariser | None
    texts: Texts
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    others: Mapping[str, Summariser] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def by(self) -> str:
        """The writer of summaries, for people; each tenant may choose models of its host."""
        return self.summariser.name if self.summariser else "models of Open WebUI, or by code"

    @property
    def endpoint(self) -> str | None:
        """The fleet shares a breaker and a bound for it; None for the built-in summariser."""
        if self.summariser is None:
            return None
        return f"{self.summariser.name} {self.settings.summariser_url}".strip()


@dataclass(frozen=True, slots=True)
class Claim:
    """A chat that this worker works on.

    Attributes:
        context: the worker's.
        lease: on the chat.
        run: the id of the row that describes the round.
        request_id: of the request that made the work due; a new one when nobody knows it.
        put_down: the basis of the model's round that waits for a reply, or has one.
        began: when the work began, by `perf_counter`.
    """

    context: WorkerContext
    lease: work.Lease
    run: int
    request_id: str
    put_down: Basis | None
    began: float = field(default_factory=perf_counter)

    @property
    def chat(self) -> ChatKey:
        """The chat."""
        return self.lease.chat

    @property
    def engine(self) -> AsyncEngine:
        """The database."""
        return self.context.engine

    @property
    def endpoint(self) -> Endpoint | None:
        """A breaker counts its failures; None where code alone writes."""
        if self.context.endpoint:
            return Endpoint(self.context.endpoint)
        writer = self.put_down.writer if self.put_down else self.lease.writer
        return make_endpoint(self.chat, writer) if writer else None


async def claim_chat(context: WorkerContext) -> Claim | None:
    """Claims the chat whose turn it is.

    Returns:
        None when no work is due, or the summariser has enough to do. And None for a worker that
        lacks a key: another one that has all of them does the work.
    """
    async with context.engine.begin() as connection:
        if missing := await sealing.keyring_of(connection).missing_keys():
            log.warning("compress.key_missing", why=missing)
            return None
        calls = context.settings.summariser_calls
        lease = await work.claim_work(connection, context.worker, context.endpoint, calls)
        if lease is None:
            return None
        chat = lease.chat
        request_id = lease.request_id or request_ids.make_id()
        run = await runs.begin_run(connection, chat, lease.seq, request_id, by_code=lease.by_code)
        put_down = None if lease.code_writes else await prompts.find_basis(connection, chat)
    return Claim(context, lease, run, request_id, put_down)


@asynccontextmanager
async def keep_lease(claim: Claim) -> AsyncIterator[None]:
    """Renews the lease until the work ends: a call to a small local model may take minutes."""
    renewing = asyncio.create_task(_renew(claim))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _renew(claim: Claim) -> None:
    is_held = True
    while is_held:
        # A third of it, so that one renewal may fail without losing the lease.
        await asyncio.sleep(work.LEASE / 3)
        try:
            async with claim.engine.begin() as connection:
                is_held = await work.renew_lease(connection, claim.lease)
        except (SQLAlchemyError, OSError) as error:  # it may be back before the lease expires
            kind = type(error).__name__
            log.warning("compress.lease_not_renewed", chat=claim.lease.chat_id, error=kind)
