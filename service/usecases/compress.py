"""The one use case of workers: claim the chat whose turn it is, plan, and for each chunk summarise, judge and publish.

While the next request is too large, code first makes an interim summary of all up to the tail,
which serves until the summariser has read the same. It is made in a moment and costs no call, and
no summary grows from it.

Every chunk is published on its own, so a crash loses at most one call. Nothing is held in a
transaction while a summariser thinks; what it took is fenced by the lease, the epoch and the digest
when it is published. A chat with many chunks goes back to the end of the queue between two of them
when others wait.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import planning
from service.errors import (
    PrecisError,
    SummariserAway,
    SummariserError,
    TextProcessAway,
    TextTooHard,
    trace,
)
from service.planning import Checkpoint, Chunk, PartialTurn, PathMessage, Plan
from service.policy import Policy
from service.processes import Texts, rounds
from service.settings import Settings
from service.storage import breakers, chats, checkpoints, messages, outage, runs, work
from service.storage.checkpoints import Fresh
from service.storage.messages import Row
from service.summarising import prompt, writing
from service.summarising.compose import Covered, Material
from service.summarising.memory import Memory
from service.summarising.reading import Summariser
from service.summarising.writing import Attempt

_LONGEST_DELAY = 300  # seconds
_LONGEST_REASON = 1000  # characters of an error that nobody expected
_PROCESS_PAUSE = 10  # seconds, when no text process could be started
_LOOK = 0.2  # seconds between two looks at a chat that goes on while its summariser is asked
_MOST_DEGRADED = 2  # of one parent: the LLM makes a degraded one anew once, and goes on from it if that fails too

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What a worker works with. Without a `summariser`, code alone makes summaries.

    `others` are the summarisers of models that have one of their own. They share the breaker and
    the bound of `summariser`, because they stand at the same address.

    `texts` are the processes in which texts are read, for any may be too hard. `worker` names this
    process to operators.
    """

    engine: AsyncEngine
    settings: Settings
    summariser: Summariser | None
    texts: Texts
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    others: Mapping[str, Summariser] = field(default_factory=dict)

    def summariser_of(self, model: str) -> Summariser | None:
        """Who writes the summaries of the chats of a model."""
        return self.others.get(model, self.summariser)

    @property
    def has_model(self) -> bool:
        """Whether a model writes summaries, and not rules alone."""
        return self.summariser is not None

    @property
    def by(self) -> str:
        """Who writes summaries, for people."""
        return self.summariser.name if self.summariser else writing.BY_CODE

    @property
    def endpoint(self) -> str | None:
        """What the fleet shares a breaker and a bound for; None for the built-in summariser."""
        if self.summariser is None:
            return None
        return f"{self.summariser.name} {self.settings.summariser_url}".strip()


@dataclass(frozen=True, slots=True)
class Worked:
    """A chat was worked on; it is due again in so many seconds, or not at all."""

    again: float | None


@dataclass(frozen=True, slots=True)
class _Round:
    """One round of work on one chat.

    Attributes:
        bench: the worker's.
        lease: on the chat.
        run: its number.
        policy: the chat's budgets.
        rows: the path, root to leaf.
        instead_of: checkpoints whose place is taken by what is published as deep as they are:
            interim ones, and a degraded one.
        anew: whether a degraded one is among them.
        hard: the round before ended because one of its texts was too hard.
    """

    context: WorkerContext
    lease: work.Lease
    run: int
    policy: Policy
    rows: Sequence[Row]
    instead_of: Sequence[Checkpoint] = ()
    anew: bool = False
    hard: bool = False

    @property
    def summariser(self) -> Summariser | None:
        """Who is asked in this round; None when code writes alone."""
        return None if self.lease.fallback else self.context.summariser_of(self.lease.model)


@dataclass(frozen=True, slots=True)
class _Written:
    """What is to be published, of which kind it is, and who wrote it.

    `asked` says whether a summariser was asked for it, which tells that its endpoint is there.
    """

    attempt: Attempt
    kind: str
    by: str
    asked: bool = True


@dataclass(frozen=True, slots=True)
class _Done:
    """What a round did: hidden marker lines left out, whether nothing is left to do, the last checkpoint published.

    `no_gain` says why its last chunk was not worth publishing, if it was not.
    """

    markers: int
    complete: bool
    last: int | None
    no_gain: str = ""


class Refused(PrecisError):
    """The chat was edited, reset or leased again while its summary was written."""


class Gone(PrecisError):
    """Texts that the work needs are not kept any more."""


class Rejected(SummariserError):
    """The publish gate rejected what the summariser wrote."""


async def compress(context: WorkerContext) -> Worked | None:
    """Does the work of the chat whose turn it is; None when there is none, or the summariser has enough to do."""
    async with context.engine.begin() as connection:
        lease = await work.claim(connection, context.worker, context.endpoint, context.settings)
        if lease is None:
            return None
        run = await runs.begin(connection, lease.chat, lease.seq)
    async with _kept(context, lease):
        return Worked(await _attempt(context, lease, run))


async def _attempt(context: WorkerContext, lease: work.Lease, run: int) -> float | None:
    """One round of work, or its end in words; returns the seconds until the chat is due again."""
    try:
        return await _work(context, lease, run)
    except asyncio.CancelledError:
        stopped = PrecisError("the worker was stopped")
        await asyncio.shield(_give_back(context, lease, run, "released", stopped, delay=0))
        raise
    except Refused as error:
        return await _give_back(context, lease, run, "refused", error, delay=0)
    except Rejected as error:
        return await _failed(context, lease, run, "rejected", error)
    except TextTooHard as error:
        return await _failed(context, lease, run, runs.TOO_HARD, error)
    except TextProcessAway as error:  # which says nothing about the chat
        return await _give_back(context, lease, run, "released", error, delay=_PROCESS_PAUSE)
    except Gone as error:
        return await _wait_for_bodies(context, lease, run, str(error))
    except PrecisError as error:
        return await _failed(context, lease, run, "failed", error)
    except Exception as error:
        if outage.is_away(error):  # which says nothing about the chat, nor about the summariser
            gone = PrecisError("the database was away")
            return await _give_back(context, lease, run, "released", gone, delay=1)
        log.error("compress.failed", chat=lease.chat.id, exception=trace(error))
        return await _failed(context, lease, run, "failed", error)


async def _work(context: WorkerContext, lease: work.Lease, run: int) -> float | None:
    if lease.compactor == chats.COMPACTS_ITSELF:
        return await _end(context, lease, run, "Open WebUI compacts this chat itself")
    this, path, made = await _begun(context, lease, run)
    if this.summariser and not this.hard:
        this = await _serve_at_once(this, path, made)
    if lease.at_once:
        await _wait_on(context, lease, run)
        return None
    async with context.engine.connect() as connection:
        kept = await checkpoints.partial(connection, lease.chat)
    place = _place(kept, this.rows)
    plan_of = planning.plan if this.summariser else planning.plan_by_code
    partial = place[0] if place else None
    plan = await asyncio.to_thread(
        plan_of, path, [made] if made else [], this.policy, partial=partial
    )
    async with _served_meanwhile(this):
        done = await _carry_out(this, plan, place[1] if place and plan.partial else None)
    deepest = done.last or (made.id if made else None)
    return await _end(
        context,
        lease,
        run,
        done.no_gain if plan.chunks else plan.reason,
        done.markers,
        again=not done.complete,
        deepest=None if done.no_gain else deepest,
    )


async def _begun(
    context: WorkerContext, lease: work.Lease, run: int
) -> tuple[_Round, list[PathMessage], Checkpoint | None]:
    """A round, the path that it is about, and the deepest checkpoint that it goes on from."""
    policy = context.settings.policy(lease.model, lease.window, lease.overhead)
    async with context.engine.connect() as connection:
        rows = await messages.path(connection, lease.chat, lease.leaf) if lease.leaf else []
        path = [
            PathMessage(row.message_id, row.role, row.digest, row.tokens, tuple(row.step_tokens))
            for row in rows
        ]
        settled, interim = await checkpoints.along(
            connection, lease.chat, {row.checkpoint_id or 0 for row in rows}
        )
        made = planning.deepest(path, settled)
        degraded = made if made and await _made_anew(connection, context, lease, made.id) else None
        if degraded:
            found = await checkpoints.degraded(connection, lease.chat, degraded.id)
            made = await checkpoints.find(connection, lease.chat, found.parent if found else None)
        hard = await runs.before(connection, lease.chat, run) == runs.TOO_HARD
    instead_of = [*interim, degraded] if degraded else interim
    return (
        _Round(context, lease, run, policy, rows, instead_of, degraded is not None, hard),
        path,
        made,
    )


@asynccontextmanager
async def _served_meanwhile(this: _Round) -> AsyncIterator[None]:
    """Gives the chat interim summaries while the round goes on: a call may take as long as many turns."""
    serving = asyncio.create_task(_serve_meanwhile(this))
    try:
        yield
    finally:
        serving.cancel()
        (ended,) = await asyncio.gather(serving, return_exceptions=True)
        if isinstance(ended, Exception):
            log.error(
                "compress.not_served_meanwhile", chat=this.lease.chat.id, exception=trace(ended)
            )


async def _serve_meanwhile(this: _Round) -> None:
    """Makes an interim summary whenever something was handed over and the next request is too large.

    The round goes on whatever happens here, and the one after it will see to the chat in any case.
    """
    context, lease = this.context, this.lease
    while this.summariser:  # code alone is done in a moment
        await asyncio.sleep(_LOOK)
        try:
            async with context.engine.connect() as connection:
                grown = await work.grown(connection, lease)
            if grown is not None:
                lease = grown
                newer, path, made = await _begun(context, lease, this.run)
                # On another branch it might end above what this round publishes, which would not
                # replace it.
                if this.rows[-1].digest in {row.digest for row in newer.rows}:
                    await _serve_at_once(newer, path, made)
        except (PrecisError, SQLAlchemyError, OSError) as error:
            log.warning(
                "compress.not_served_meanwhile", chat=lease.chat.id, error=type(error).__name__
            )


async def _wait_on(context: WorkerContext, lease: work.Lease, run: int) -> None:
    """Ends a round in which the summariser could not be asked; the chat is due until it can be."""
    async with context.engine.begin() as connection:
        await runs.end(
            connection, lease.chat, run, "waits", "the summariser is away, or has enough to do"
        )
        await work.wait_on(connection, lease)


async def _made_anew(
    connection: AsyncConnection, context: WorkerContext, lease: work.Lease, checkpoint: int
) -> bool:
    """Whether a checkpoint is degraded, and the LLM is to make it anew; it tries that once."""
    if lease.fallback or not context.has_model:
        return False
    found = await checkpoints.degraded(connection, lease.chat, checkpoint)
    return found is not None and found.siblings < _MOST_DEGRADED


async def _end(
    context: WorkerContext,
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
    async with context.engine.begin() as connection:
        await runs.end(
            connection, lease.chat, run, "nothing to do" if nothing else "done", nothing, markers
        )
        better = deepest if context.has_model else None
        degraded = await checkpoints.degraded(connection, lease.chat, better) if better else None
        later = (
            context.settings.replace_after
            if degraded and degraded.siblings < _MOST_DEGRADED
            else None
        )
        return await work.finish(
            connection, lease, again=again, debounce=context.settings.debounce, later=later or None
        )


def _place(
    kept: tuple[str, PartialTurn, Memory] | None, rows: Sequence[Row]
) -> tuple[PartialTurn, Memory] | None:
    """The draft with its message's index on this path; None when the message is not on it."""
    index = {row.message_id: place for place, row in enumerate(rows)}
    if kept is None or kept[0] not in index:
        return None
    _, partial, memory = kept
    return replace(partial, position=replace(partial.position, message=index[kept[0]])), memory


async def _serve_at_once(
    this: _Round, path: Sequence[PathMessage], made: Checkpoint | None
) -> _Round:
    """Publishes an interim summary when the chat's next request is too large.

    It goes on from the interim one before, if there is one, so that each message is read once. It
    is a branch of `made`, which the summariser goes on from.

    Returns:
        The round, with the new one among those whose place will be taken.
    """
    served = [*this.instead_of, made] if made else this.instead_of
    plan = await asyncio.to_thread(planning.plan, path, served, this.policy.at_once)
    whole = [chunk for chunk in plan.chunks if chunk.covers is not None]
    if not whole:
        return this
    memory = await _memory(this, plan.reuse)
    for chunk in plan.chunks[: plan.chunks.index(whole[-1]) + 1]:
        material, _ = await _gather(this, chunk, memory)
        written = await _by_rule(this, material, _covered(this, chunk), checkpoints.INTERIM)
        memory = written.attempt.candidate.memory
    if written.attempt.candidate.no_gain:
        return this
    until = this.rows[(whole[-1].covers or 0) - 1]
    fresh = _fresh(this, until, made.id if made else 0, written)
    async with this.context.engine.begin() as connection:
        published = await checkpoints.publish(connection, this.lease, fresh)
    if not published:
        raise _changed()
    interim = Checkpoint(
        published, until.message_id, until.digest, until.depth, until.path_tokens, fresh.tokens
    )
    return replace(this, instead_of=[*this.instead_of, interim])


async def _memory(this: _Round, made: Checkpoint | None) -> Memory:
    """What the next summary grows from."""
    if made is None:
        return Memory()
    async with this.context.engine.connect() as connection:
        stored = await checkpoints.memory(connection, this.lease.chat, made.id)
    if stored is None:
        raise _changed()
    return stored


async def _carry_out(this: _Round, plan: Plan, read_before: Memory | None) -> _Done:
    """Makes the plan's calls in order, until another chat waits; one that replaces a checkpoint makes them all."""
    parent = plan.reuse.id if plan.reuse else 0
    memory = read_before or await _memory(this, plan.reuse)
    markers, last, no_gain = 0, None, ""
    kept = False  # whether what was read so far is stored
    for number, chunk in enumerate(plan.chunks):
        if kept and not this.anew and await _others_wait(this):
            return _Done(markers, False, last)
        if this.hard and number == 0:
            written = await _by_size(this, chunk, memory)
        else:
            material, found = await _gather(this, chunk, memory)
            markers += found
            written = await _write(this, chunk, material)
        memory = written.attempt.candidate.memory
        no_gain = written.attempt.candidate.no_gain if chunk.covers is not None else ""
        kept = not no_gain
        if no_gain:  # the next chunk's summary stands for this one as well
            await _count_unpublished(this, written.attempt)
            continue
        parent = await _publish(this, chunk, parent, written)
        last = parent if chunk.covers is not None else last
    # Another round would end in the same way: the chat's next hand-over makes work due.
    return _Done(markers, plan.complete or bool(no_gain), last, no_gain)


async def _others_wait(this: _Round) -> bool:
    async with this.context.engine.connect() as connection:
        return await work.waiting(connection, 1, besides=this.lease.chat) > 0


async def _gather(this: _Round, chunk: Chunk, memory: Memory) -> tuple[Material, int]:
    """What the chunk is made of, and how many hidden marker lines were left out."""
    ids = {
        read.position.message: this.rows[read.position.message].message_id for read in chunk.reads
    }
    async with this.context.engine.connect() as connection:
        packed = await messages.bodies(connection, this.lease.chat, list(ids.values()))
    if missing := [identity for identity in ids.values() if identity not in packed]:
        raise Gone(
            f"the text of {len(missing)} messages is not kept any more, the first is {missing[0]};"
            " the work waits for it until the chat's next turn"
        )
    place, mask = (chunk.part, chunk.parts), this.context.settings.mask_secrets
    texts = this.context.texts
    return await texts.run(
        rounds.gathered, packed, ids, chunk.reads, memory, this.policy, place, mask
    )


async def _by_size(this: _Round, chunk: Chunk, memory: Memory) -> _Written:
    """A summary of a chunk whose texts were too hard the last time: rules write it, without a look at them.

    The memory before is carried on. Should that be too hard itself, it is left behind: this way a
    chat gets its checkpoint whatever is in it.
    """
    covered = _covered(this, chunk)
    read = {one.position.message for one in chunk.reads}
    size = sum(one.tokens for one in chunk.reads)
    told = len(read), size, this.policy, covered
    try:
        attempt = await this.context.texts.run(writing.by_size, memory, *told)
    except TextTooHard as error:
        log.warning("compress.memory_too_hard", chat=this.lease.chat.id, kind=error.kind)
        attempt = writing.by_size(Memory(), *told)
    return _Written(attempt, "degraded", writing.BY_CODE, asked=False)


def _covered(this: _Round, chunk: Chunk) -> Covered:
    last = this.rows[chunk.covers - 1 if chunk.covers else chunk.reads[-1].position.message]
    return Covered(last.depth, last.path_tokens, last.sent_at)


async def _write(this: _Round, chunk: Chunk, material: Material) -> _Written:
    """Asks the summariser, once more with the gate's reasons if it must be, and falls back on rules.

    Raises:
        Rejected: nothing that may be published was written.
    """
    covered = _covered(this, chunk)
    summariser, run = this.summariser, this.context.texts.run
    if summariser is None:
        kind = "degraded" if this.lease.fallback else "extractive"
        return await _by_rule(this, material, covered, kind)
    rejections: tuple[str, ...] = ()
    for _ in range(writing.CALLS):
        attempt = await writing.attempt(run, summariser, material, this.policy, covered, rejections)
        if attempt.accepted:
            return _Written(attempt, "llm", summariser.name)
        rejections = attempt.reasons
        reasons = list(attempt.kinds)
        log.warning(
            "compress.rejected",
            chat=this.lease.chat.id,
            summariser=summariser.name,
            reasons=reasons,
        )
        await _count_unpublished(this, attempt)
    if not this.context.settings.fallback_after:
        raise _rejected(summariser.name, attempt)
    return await _by_rule(this, material, covered, "degraded", rejections)


async def _count_unpublished(this: _Round, attempt: Attempt) -> None:
    """Counts a call that led to nothing; it was an answer all the same, so the endpoint is not away."""
    async with this.context.engine.begin() as connection:
        if this.context.endpoint and not this.lease.fallback:
            await breakers.succeeded(connection, this.context.endpoint)
        await _count(connection, this, attempt, published=False)


async def _count(
    connection: AsyncConnection, this: _Round, attempt: Attempt, *, published: bool
) -> None:
    spent = attempt.read, attempt.wrote
    await runs.count(connection, this.lease.chat, this.run, *spent, published=published)


async def _by_rule(
    this: _Round, material: Material, covered: Covered, kind: str, rejections: tuple[str, ...] = ()
) -> _Written:
    run = this.context.texts.run
    attempt = await writing.by_rule(run, material, this.policy, covered, kind, rejections)
    return _Written(attempt, kind, writing.BY_CODE)


def _rejected(summariser: str, attempt: Attempt) -> Rejected:
    told = f"{summariser}: {'; '.join(attempt.reasons)}"
    return Rejected(f"{summariser}: rejected as {', '.join(attempt.kinds)}", told)


async def _publish(this: _Round, chunk: Chunk, parent: int, written: _Written) -> int:
    """Publishes a chunk as a checkpoint, or keeps it as a draft inside a long turn; returns the next one's parent."""
    published: int | bool | None = None
    async with this.context.engine.begin() as connection:
        if this.context.endpoint and not this.lease.fallback and written.asked:
            await breakers.succeeded(connection, this.context.endpoint)
        if chunk.covers is not None:
            fresh = _fresh(this, this.rows[chunk.covers - 1], parent, written)
            published = parent = await checkpoints.publish(connection, this.lease, fresh) or 0
        elif chunk.then is not None:
            message = this.rows[chunk.then.position.message]
            partial = PartialTurn(
                parent or None, message.digest, chunk.then.position, chunk.then.pieces
            )
            memory = written.attempt.candidate.memory
            published = await checkpoints.save_partial(
                connection, this.lease, message.message_id, partial, memory
            )
        await _count(connection, this, written.attempt, published=bool(published))
    if not published:
        raise _changed()
    return parent


def _changed() -> Refused:
    return Refused("the chat was edited, reset or leased again while its summary was written")


def _fresh(this: _Round, until: Row, parent: int, written: _Written) -> Fresh:
    candidate = written.attempt.candidate
    replaces = [one.id for one in this.instead_of if one.messages <= until.depth]
    return Fresh(
        parent,
        until,
        written.kind,
        candidate.memory,
        candidate.rendered,
        candidate.size,
        written.by,
        prompt.VERSION,
        candidate.verdict.as_json(),
        replaces,
    )


async def _wait_for_bodies(
    context: WorkerContext, lease: work.Lease, run: int, reason: str
) -> float | None:
    """Not a failure: the filter is asked for the whole path at the chat's next turn, and the work is due then."""
    log.info("compress.waits_for_texts", chat=lease.chat.id, reason=reason)
    async with context.engine.begin() as connection:
        await runs.end(connection, lease.chat, run, "waits", reason)
        return await work.wait_for_bodies(connection, lease, reason)


async def _failed(
    context: WorkerContext, lease: work.Lease, run: int, outcome: str, error: Exception
) -> float | None:
    """Puts the work off, longer each time, until it is given up.

    No chat is given up because a summariser is away or a text is too hard.
    """
    away, most = isinstance(error, SummariserAway), context.settings.max_attempts
    # After a text that was too hard, the next round reads less: that can go well at any time.
    spared = away or isinstance(error, TextTooHard)
    dead = bool(most) and lease.attempts >= most and not spared
    delay = None if dead else min(_LONGEST_DELAY, 2.0**lease.attempts)
    return await _give_back(
        context, lease, run, outcome, error, delay=delay, counts=True, away=away
    )


async def _give_back(
    context: WorkerContext,
    lease: work.Lease,
    run: int,
    outcome: str,
    error: Exception,
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
        error: how, in words: those of others may quote the chat, and stay in its runs.
        delay: see above.
        counts: the work itself failed.
        away: its summariser did not answer, which counts for the breaker.

    Returns:
        Seconds until it is due again, as far as this worker knows.
    """
    kind, detail = _told(error)
    log.warning(
        "compress.given_back",
        chat=lease.chat.id,
        outcome=outcome,
        reason=kind,
        attempt=lease.attempts,
    )
    rules = context.settings.breaker_after, context.settings.breaker_pause
    try:
        async with context.engine.begin() as connection:
            if away and context.endpoint:
                await breakers.failed(connection, context.endpoint, kind, *rules)
            await runs.end(connection, lease.chat, run, outcome, detail)
            return await work.give_back(connection, lease, kind if counts else None, delay)
    except Exception as left:
        if not outage.is_away(left):
            raise
        log.warning("compress.lease_left", chat=lease.chat.id, error=type(left).__name__)
        return None


def _told(error: Exception) -> tuple[str, str]:
    """What an error says to everybody, and what it says in the runs of its own chat."""
    if isinstance(error, SummariserError):
        return str(error), error.detail
    if isinstance(error, PrecisError):
        return str(error), str(error)
    return f"unexpected {type(error).__name__}; the log says where", _storable(repr(error))


def _storable(text: str) -> str:
    """PostgreSQL has no NUL, and a bound keeps a whole text from being stored once more."""
    return text.replace("\0", "")[:_LONGEST_REASON].encode(errors="replace").decode()


@asynccontextmanager
async def _kept(context: WorkerContext, lease: work.Lease) -> AsyncIterator[None]:
    """Renews the lease until the work ends: a call to a small local model may take minutes."""
    renewing = asyncio.create_task(_renew(context, lease))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _renew(context: WorkerContext, lease: work.Lease) -> None:
    held = True
    while held:
        await asyncio.sleep(context.settings.lease / 3)
        try:
            async with context.engine.begin() as connection:
                held = await work.renew(connection, lease, context.settings.lease)
        except (SQLAlchemyError, OSError) as error:  # it may be back before the lease expires
            log.warning(
                "compress.lease_not_renewed", chat=lease.chat.id, error=type(error).__name__
            )
