"""The one use case of workers: claim the chat whose turn it is, plan, and for each chunk summarise, judge and publish.

Every chunk is published on its own, so a crash loses at most one call. Nothing is held in a transaction while a
summariser thinks; what it took is fenced by the lease, the epoch and the digest when it is published. A chat with many
chunks goes back to the end of the queue between two of them when others wait.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import planning
from service.errors import PrecisError, SummariserAway, SummariserError
from service.planning import Checkpoint, Chunk, Draft, PathMessage, Plan, Policy
from service.settings import Settings
from service.storage import chats, checkpoints, codec, endpoints, history, outage, transcripts, work
from service.storage.checkpoints import Fresh
from service.storage.transcripts import Row
from service.summarising import compose, prompt, writing
from service.summarising.compose import Covered, Material, Read
from service.summarising.memory import Memory
from service.summarising.reading import Summariser
from service.summarising.writing import Attempt
from service.transcript import parse, steps

_LONGEST_DELAY = 300  # seconds
_MOST_DEGRADED = 2  # of one parent: the LLM makes a degraded one anew once, and goes on from it if that fails too

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a worker works with. `stand_in` writes degraded summaries while `summariser` keeps failing.

    `worker` names this process to operators.
    """

    engine: AsyncEngine
    settings: Settings
    summariser: Summariser
    stand_in: Summariser
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")

    @property
    def endpoint(self) -> str | None:
        """What the fleet shares a breaker and a bound for; None for the built-in summariser."""
        if self.summariser is self.stand_in:
            return None
        return f"{self.summariser.name} {self.settings.summariser_url}".strip()


@dataclass(frozen=True, slots=True)
class Worked:
    """A chat was worked on; it is due again in so many seconds, or not at all."""

    again: float | None


@dataclass(frozen=True, slots=True)
class _Round:
    """One round of work on one chat. `replaces` is the degraded checkpoint that it is to make anew, if there is one."""

    bench: Bench
    lease: work.Lease
    run: int
    policy: Policy
    rows: Sequence[Row]
    replaces: Checkpoint | None = None

    @property
    def by_rule(self) -> bool:
        """Whether the built-in summariser writes, because there is no other, or because it stands in."""
        return self.lease.stand_in or self.bench.summariser is self.bench.stand_in


@dataclass(frozen=True, slots=True)
class _Written:
    """What is to be published, of which kind it is, and who wrote it."""

    attempt: Attempt
    kind: str
    by: str


@dataclass(frozen=True, slots=True)
class _Done:
    """What a round did: hidden marker lines left out, whether nothing is left to do, the last checkpoint published."""

    markers: int
    complete: bool
    last: int | None


class Refused(PrecisError):
    """The chat was edited, reset or leased again while its summary was written."""


class Gone(PrecisError):
    """Texts that the work needs are not kept any more."""


class Rejected(SummariserError):
    """The publish gate rejected what the summariser wrote."""


async def compress(bench: Bench) -> Worked | None:
    """Does the work of the chat whose turn it is; None when there is none, or the summariser has enough to do."""
    async with bench.engine.begin() as connection:
        lease = await work.claim(connection, bench.worker, bench.endpoint, bench.settings)
        if lease is None:
            return None
        run = await history.begin(connection, lease.chat, lease.seq)
    async with _kept(bench, lease):
        return Worked(await _attempt(bench, lease, run))


async def _attempt(bench: Bench, lease: work.Lease, run: int) -> float | None:
    """One round of work, or its end in words; returns the seconds until the chat is due again."""
    try:
        return await _work(bench, lease, run)
    except asyncio.CancelledError:
        await asyncio.shield(_give_back(bench, lease, run, "released", "the worker was stopped", delay=0))
        raise
    except Refused as error:
        return await _give_back(bench, lease, run, "refused", str(error), delay=0)
    except Rejected as error:
        return await _failed(bench, lease, run, "rejected", error)
    except Gone as error:
        return await _wait_for_bodies(bench, lease, run, str(error))
    except PrecisError as error:
        return await _failed(bench, lease, run, "failed", error)
    except Exception as error:
        if outage.is_away(error):  # which says nothing about the chat, nor about the summariser
            return await _give_back(bench, lease, run, "released", "the database was away", delay=1)
        log.exception("compress.failed", chat=lease.chat.id)
        return await _failed(bench, lease, run, "failed", error)


async def _work(bench: Bench, lease: work.Lease, run: int) -> float | None:
    if lease.compactor == chats.COMPACTS_ITSELF:
        return await _end(bench, lease, run, "Open WebUI compacts this chat itself")
    policy = bench.settings.policy(lease.window, lease.overhead)
    async with bench.engine.connect() as connection:
        rows = await transcripts.path(connection, lease.chat, lease.leaf) if lease.leaf else []
        made = await checkpoints.find(connection, lease.chat, rows[-1].checkpoint_id if rows else None)
        replaces = made if made and await _made_anew(connection, bench, lease, made.id) else None
        if replaces:
            degraded = await checkpoints.degraded(connection, lease.chat, replaces.id)
            made = await checkpoints.find(connection, lease.chat, degraded.parent if degraded else None)
        kept = await checkpoints.draft(connection, lease.chat)
    path = [PathMessage(row.message_id, row.role, row.digest, row.tokens, tuple(row.step_tokens)) for row in rows]
    place = _place(kept, rows)
    plan = await asyncio.to_thread(
        planning.plan, path, [made] if made else [], policy, draft=place[0] if place else None
    )
    this = _Round(bench, lease, run, policy, rows, replaces)
    done = await _carry_out(this, plan, place[1] if place and plan.draft else None)
    return await _end(
        bench,
        lease,
        run,
        "" if plan.chunks else plan.reason,
        done.markers,
        again=not done.complete,
        deepest=done.last or (made.id if made else None),
    )


async def _made_anew(connection: AsyncConnection, bench: Bench, lease: work.Lease, checkpoint: int) -> bool:
    """Whether a checkpoint is degraded, and the LLM is to make it anew; it tries that once."""
    if lease.stand_in or bench.summariser is bench.stand_in:
        return False
    found = await checkpoints.degraded(connection, lease.chat, checkpoint)
    return found is not None and found.siblings < _MOST_DEGRADED


async def _end(
    bench: Bench,
    lease: work.Lease,
    run: int,
    nothing: str,
    markers: int = 0,
    *,
    again: bool = False,
    deepest: int | None = None,
) -> float | None:
    """Ends a round that went well; `nothing` is why there was nothing to do, if there was not.

    When the `deepest` checkpoint is a degraded one, the chat is due again after a while.
    """
    async with bench.engine.begin() as connection:
        await history.end(connection, lease.chat, run, "nothing to do" if nothing else "done", nothing, markers)
        degraded = await checkpoints.degraded(connection, lease.chat, deepest) if deepest else None
        later = bench.settings.replace_after if degraded and degraded.siblings < _MOST_DEGRADED else None
        return await work.finish(connection, lease, again=again, debounce=bench.settings.debounce, later=later or None)


def _place(kept: tuple[str, Draft, Memory] | None, rows: Sequence[Row]) -> tuple[Draft, Memory] | None:
    """The draft with its message's index on this path; None when the message is not on it."""
    index = {row.message_id: place for place, row in enumerate(rows)}
    if kept is None or kept[0] not in index:
        return None
    _, draft, memory = kept
    return replace(draft, position=replace(draft.position, message=index[kept[0]])), memory


async def _carry_out(this: _Round, plan: Plan, read_before: Memory | None) -> _Done:
    """Makes the plan's calls in order, until another chat waits; one that replaces a checkpoint makes them all."""
    parent = plan.reuse.id if plan.reuse else 0
    memory = read_before or Memory()
    if parent and read_before is None:
        async with this.bench.engine.connect() as connection:
            memory = await checkpoints.memory(connection, this.lease.chat, parent)
    markers, last = 0, None
    for number, chunk in enumerate(plan.chunks):
        if number and not this.replaces and await _others_wait(this):
            return _Done(markers, False, last)
        material, found = await _gather(this, chunk, memory)
        markers += found
        written = await _write(this, chunk, material)
        parent = await _publish(this, chunk, parent, written)
        last = parent if chunk.covers is not None else last
        memory = written.attempt.draught.memory
    return _Done(markers, plan.complete, last)


async def _others_wait(this: _Round) -> bool:
    async with this.bench.engine.connect() as connection:
        return await work.waiting(connection, 1, besides=this.lease.chat) > 0


async def _gather(this: _Round, chunk: Chunk, memory: Memory) -> tuple[Material, int]:
    """What the chunk is made of, and how many hidden marker lines were left out."""
    ids = list(dict.fromkeys(this.rows[read.position.message].message_id for read in chunk.reads))
    async with this.bench.engine.connect() as connection:
        packed = await transcripts.bodies(connection, this.lease.chat, ids)
    if missing := [identity for identity in ids if identity not in packed]:
        raise Gone(
            f"the text of {len(missing)} messages is not kept any more, the first is {missing[0]};"
            " the work waits for it until the chat's next turn"
        )
    return await asyncio.to_thread(_read, this, chunk, memory, packed)


def _read(this: _Round, chunk: Chunk, memory: Memory, packed: dict[str, bytes]) -> tuple[Material, int]:
    messages = {identity: parse(codec.unpack(body)) for identity, body in packed.items()}
    cut = {identity: steps(message) for identity, message in messages.items()}
    reads = [
        Read(cut[this.rows[read.position.message].message_id][read.position.step], read.position.piece, read.pieces)
        for read in chunk.reads
    ]
    mask = this.bench.settings.mask_secrets
    material = compose.gather(memory, reads, this.policy, part=chunk.part, parts=chunk.parts, mask=mask)
    return material, sum(message.markers for message in messages.values())


async def _write(this: _Round, chunk: Chunk, material: Material) -> _Written:
    """Asks the summariser, once more with the gate's reasons if it must be, and falls back on rules.

    Raises:
        Rejected: nothing that may be published was written.
    """
    last = this.rows[chunk.covers - 1 if chunk.covers else chunk.reads[-1].position.message]
    covered = Covered(last.depth, last.path_tokens, last.sent_at)
    if this.by_rule:
        return await _by_rule(this, material, covered, "degraded" if this.lease.stand_in else "extractive")
    summariser = this.bench.summariser
    faults: tuple[str, ...] = ()
    for _ in range(writing.CALLS):
        attempt = await writing.attempt(summariser, material, this.policy, covered, faults)
        if attempt.accepted:
            return _Written(attempt, "llm", summariser.name)
        faults = attempt.reasons
        log.warning("compress.rejected", chat=this.lease.chat.id, summariser=summariser.name, reasons=faults)
        await _count_rejected(this, attempt)
    if not this.bench.settings.fallback_after:
        raise Rejected(f"{summariser.name}: {'; '.join(faults)}")
    return await _by_rule(this, material, covered, "degraded", faults)


async def _count_rejected(this: _Round, attempt: Attempt) -> None:
    """Counts a call that led to nothing; it was an answer all the same, so the endpoint is not away."""
    async with this.bench.engine.begin() as connection:
        if this.bench.endpoint:
            await endpoints.succeeded(connection, this.bench.endpoint)
        await _count(connection, this, attempt, published=False)


async def _count(connection: AsyncConnection, this: _Round, attempt: Attempt, *, published: bool) -> None:
    spent = attempt.read, attempt.wrote
    await history.count(connection, this.lease.chat, this.run, *spent, published=published)


async def _by_rule(
    this: _Round, material: Material, covered: Covered, kind: str, faults: tuple[str, ...] = ()
) -> _Written:
    attempt = await writing.by_rule(this.bench.stand_in, material, this.policy, covered, kind, faults)
    if not attempt.accepted:
        raise Rejected(f"{this.bench.stand_in.name}: {'; '.join(attempt.reasons)}")
    return _Written(attempt, kind, this.bench.stand_in.name)


async def _publish(this: _Round, chunk: Chunk, parent: int, written: _Written) -> int:
    """Publishes a chunk as a checkpoint, or keeps it as a draft inside a long turn; returns the next one's parent."""
    published: int | bool | None = None
    async with this.bench.engine.begin() as connection:
        if this.bench.endpoint and not this.lease.stand_in:
            await endpoints.succeeded(connection, this.bench.endpoint)
        if chunk.covers is not None:
            fresh = _fresh(this, this.rows[chunk.covers - 1], parent, written)
            published = parent = await checkpoints.publish(connection, this.lease, fresh) or 0
        elif chunk.then is not None:
            message = this.rows[chunk.then.position.message]
            draft = Draft(parent or None, message.digest, chunk.then.position, chunk.then.pieces)
            memory = written.attempt.draught.memory
            published = await checkpoints.save_draft(connection, this.lease, message.message_id, draft, memory)
        await _count(connection, this, written.attempt, published=bool(published))
    if not published:
        raise Refused("the chat was edited, reset or leased again while its summary was written")
    return parent


def _fresh(this: _Round, until: Row, parent: int, written: _Written) -> Fresh:
    draught = written.attempt.draught
    replaces = this.replaces.id if this.replaces and until.depth >= this.replaces.messages else None
    return Fresh(
        parent,
        until,
        written.kind,
        draught.memory,
        draught.summary,
        draught.size,
        written.by,
        prompt.VERSION,
        draught.verdict.as_json(),
        replaces,
    )


async def _wait_for_bodies(bench: Bench, lease: work.Lease, run: int, reason: str) -> float | None:
    """Not a failure: the filter is asked for the whole path at the chat's next turn, and the work is due then."""
    log.info("compress.waits_for_texts", chat=lease.chat.id, reason=reason)
    async with bench.engine.begin() as connection:
        await history.end(connection, lease.chat, run, "waits", reason)
        return await work.wait_for_bodies(connection, lease, reason)


async def _failed(bench: Bench, lease: work.Lease, run: int, outcome: str, error: Exception) -> float | None:
    """Puts the work off, longer each time, until it is given up; a summariser that is away gives up no chat."""
    away, most = isinstance(error, SummariserAway), bench.settings.max_attempts
    dead = bool(most) and lease.attempts >= most and not away
    delay = None if dead else min(_LONGEST_DELAY, 2.0**lease.attempts)
    reason = str(error) if isinstance(error, PrecisError) else repr(error)
    return await _give_back(bench, lease, run, outcome, reason, delay=delay, counts=True, away=away)


async def _give_back(
    bench: Bench,
    lease: work.Lease,
    run: int,
    outcome: str,
    reason: str,
    *,
    delay: float | None,
    counts: bool = False,
    away: bool = False,
) -> float | None:
    """Releases the lease; the work is due again in `delay` seconds, or dead for None.

    When the database is away, the lease is left to expire, and a sweep finds the work.

    Args:
        bench: the worker's.
        lease: on the chat.
        run: the round that ends.
        outcome: how, in one word.
        reason: how, in words.
        delay: see above.
        counts: the work itself failed.
        away: its summariser did not answer, which counts for the breaker.

    Returns:
        Seconds until it is due again, as far as this worker knows.
    """
    log.warning("compress.given_back", chat=lease.chat.id, outcome=outcome, reason=reason, attempt=lease.attempts)
    rules = bench.settings.breaker_after, bench.settings.breaker_pause
    try:
        async with bench.engine.begin() as connection:
            if away and bench.endpoint:
                await endpoints.failed(connection, bench.endpoint, reason, *rules)
            await history.end(connection, lease.chat, run, outcome, reason)
            return await work.give_back(connection, lease, reason if counts else None, delay)
    except Exception as error:
        if not outage.is_away(error):
            raise
        log.warning("compress.lease_left", chat=lease.chat.id, error=repr(error))
        return None


@asynccontextmanager
async def _kept(bench: Bench, lease: work.Lease) -> AsyncIterator[None]:
    """Renews the lease until the work ends: a call to a small local model may take minutes."""
    renewing = asyncio.create_task(_renew(bench, lease))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _renew(bench: Bench, lease: work.Lease) -> None:
    held = True
    while held:
        await asyncio.sleep(bench.settings.lease / 3)
        try:
            async with bench.engine.begin() as connection:
                held = await work.renew(connection, lease, bench.settings.lease)
        except (SQLAlchemyError, OSError) as error:  # it may be back before the lease expires
            log.warning("compress.lease_not_renewed", chat=lease.chat.id, error=repr(error))
