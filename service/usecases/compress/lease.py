"""The lease on a chat: claimed before the work, renewed while it lasts, given back if it fails.

There is one for code's work and one for the model's, so both may be done at the same time.

The database decides who holds a lease, and all that is published is fenced by it. So one that
expires too early costs a call and never spoils a summary.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics, request_ids
from service.storage import breakers, outage, prompts, runs, sealing, work
from service.storage.breakers import Endpoint
from service.storage.prompts import Basis
from service.storage.tenancy import ChatKey
from service.usecases.compress.context import WorkerContext
from service.usecases.compress.mailbox import endpoint_of

log = structlog.get_logger(__name__)

TRIES = 2  # of texts on which our own code fails; the next one does without them


@dataclass(frozen=True, slots=True)
class Claim:
    """A chat that this worker works on: under which lease, in which run, and since when.

    `request_id` is that of the request that made the work due; a new one when nobody knows it.
    `troubles` are the rounds of this kind that failed on these texts before (`runs.troubles`).
    `put_down` is what the model's round was planned on that waits for a reply, or has one.
    """

    context: WorkerContext
    lease: work.Lease
    run: int
    request_id: str
    troubles: Sequence[str]
    put_down: Basis | None = None
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
        """What a breaker counts failures of; None where code alone writes."""
        if self.context.endpoint:
            return Endpoint(self.context.endpoint)
        writer = self.put_down.writer if self.put_down else self.lease.writer
        return endpoint_of(self.chat, writer) if writer else None

    @property
    def why_not_read(self) -> str:
        """Why this round gives its first messages by their size only; "" when it reads them."""
        if self.troubles[:1] == [runs.TOO_HARD]:
            return "a text of these messages was too hard to read"
        if len(self.troubles) >= TRIES:
            return "work on these messages ended in internal errors"
        return ""


@dataclass(frozen=True, slots=True)
class Release:
    """How a lease is given back after a round that did not go well.

    Attributes:
        outcome: of the run, in one word.
        reason: what happened, for everybody.
        detail: the same for the runs of its own chat alone, because it may quote the chat.
        delay: seconds until the work is due again; None gives it up.
        counts: the work itself failed.
        away: its summariser did not answer, which counts for the breaker.
    """

    outcome: str
    reason: str
    detail: str
    delay: float | None
    counts: bool = False
    away: bool = False


async def claim(context: WorkerContext) -> Claim | None:
    """The chat whose turn it is; None when no work is due, or the summariser has enough to do.

    And none without all keys: workers that have them do the work, and it is not this one's to fail.
    """
    calls = context.settings.summariser_calls
    async with context.engine.begin() as connection:
        if missing := await sealing.keyring_of(connection).missing_keys():
            log.warning("compress.key_missing", why=missing)
            return None
        lease = await work.claim(connection, context.worker, context.endpoint, calls)
        if lease is None:
            return None
        request_id = lease.request_id or request_ids.fresh()
        by_code = lease.by_code
        run = await runs.begin(connection, lease.chat, lease.seq, request_id, by_code=by_code)
        troubles = await runs.troubles(connection, lease.chat, run, by_code=by_code)
        is_for_code = by_code or lease.fallback
        put_down = None if is_for_code else await prompts.find_basis(connection, lease.chat)
    return Claim(context, lease, run, request_id, troubles, put_down)


@asynccontextmanager
async def kept(claim: Claim) -> AsyncIterator[None]:
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
                is_held = await work.renew(connection, claim.lease)
        except (SQLAlchemyError, OSError) as error:  # it may be back before the lease expires
            kind = type(error).__name__
            log.warning("compress.lease_not_renewed", chat=claim.lease.chat_id, error=kind)


async def end(
    connection: AsyncConnection,
    claim: Claim,
    outcome: str,
    reason: str = "",
    *,
    did_nothing: bool = False,
) -> None:
    """Notes how the round ended, for operators and for their monitors.

    One that did nothing leaves no row, unless it ends a series of failures.
    """
    # The chat's row first, as whoever edits a chat locks it: or each would wait for the other.
    await work.holds(connection, claim.lease)
    await runs.end(connection, claim.chat, claim.run, outcome, reason)
    if did_nothing and not claim.troubles:
        await runs.drop_idle(connection, claim.chat, claim.run)
    metrics.RUNS.labels(outcome).observe(perf_counter() - claim.began)


async def give_back(claim: Claim, release: Release) -> float | None:
    """Releases the lease, and ends the run.

    When the database is away, the lease is left to expire, and a sweep finds the work.

    Returns:
        Seconds until the work is due again, as far as this worker knows; None when it is not.
    """
    log.warning(
        "compress.given_back",
        chat=claim.lease.chat_id,
        outcome=release.outcome,
        reason=release.reason,
        attempt=claim.lease.attempts,
    )
    try:
        async with claim.engine.begin() as connection:
            return await _store(connection, claim, release)
    except Exception as error:
        if not outage.is_away(error):
            raise
        log.warning("compress.lease_left", chat=claim.lease.chat_id, error=type(error).__name__)
        return None


async def _store(connection: AsyncConnection, claim: Claim, release: Release) -> float | None:
    if release.away and claim.endpoint:
        await breakers.failed(connection, claim.endpoint, release.reason)
    await end(connection, claim, release.outcome, release.detail)
    if release.counts and not claim.lease.by_code:
        # The next attempt asks anew.
        await prompts.drop(connection, claim.chat)
    # Without an error the attempt does not count: the chat is not to blame.
    error = release.reason if release.counts else None
    return await work.give_back(connection, claim.lease, error, release.delay)
