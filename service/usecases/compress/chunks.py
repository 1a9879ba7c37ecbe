"""One chunk of a plan: its texts are gathered, its summary is written and judged, and published.

Nothing is held in a transaction while a summariser thinks. What it wrote is fenced by the lease,
the epoch and the boundary when it is published.
"""

import time
from dataclasses import dataclass, replace

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from service import metrics
from service.errors import PrecisError, TextTooHard, TextWorkFailed
from service.planning.plan import Checkpoint, Chunk, is_poorer
from service.processes import rounds
from service.storage import breakers, checkpoints, messages, publishing, runs, sums, work
from service.storage.messages import MessageRow
from service.storage.publishing import Fresh
from service.storage.runs import Spent
from service.summarising import prompt, summarise
from service.summarising.memory import Memory
from service.summarising.reading import Summariser
from service.summarising.summarise import Candidate, Covered, Material, Unread
from service.usecases.compress.round import Round

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Publication:
    """What is to be published, of which kind it is, and who wrote it.

    `asked` says whether a summariser was asked for it, which shows that its endpoint answers.
    `seconds` is how long the writing took.
    """

    candidate: Candidate
    kind: str
    by: str
    asked: bool = True
    seconds: float = 0


class Refused(PrecisError):
    """The chat was edited, reset or leased again while its summary was written."""


class Gone(PrecisError):
    """Texts that the work needs are not kept any more."""


def changed() -> Refused:
    """The error of a round whose chat is not as it was planned on any more."""
    return Refused("the chat was edited, reset or leased again while its summary was written")


async def memory_of(this: Round, parent: Checkpoint | None) -> Memory:
    """What the next summary grows from.

    Raises:
        Refused: the checkpoint was deleted since it was planned on.
    """
    if parent is None:
        return Memory()
    memory = await checkpoints.memory(this.engine, this.chat, parent.id)
    if memory is None:
        raise changed()
    return memory


async def write(this: Round, chunk: Chunk, memory: Memory) -> Publication:
    """Asks the summariser, once more with the gate's reasons if it must be; then rules write.

    Raises:
        Gone: a text is not kept any more.
    """
    began = time.monotonic()
    material = await _gather(this, chunk, memory)
    publication = await _written(this, material, _covered(this, chunk))
    return replace(publication, seconds=time.monotonic() - began)


async def write_by_rule(this: Round, chunk: Chunk, memory: Memory, kind: str) -> Publication:
    """What code makes of a chunk alone: no call, and done in a moment.

    It gives by its size what earlier rounds failed on.

    Raises:
        Gone: a text is not kept any more.
    """
    began = time.monotonic()
    if this.claim.why_by_size:
        candidate = await _by_size(this, chunk, memory, this.claim.why_by_size)
        return Publication(candidate, kind, summarise.BY_CODE, asked=False)
    material = await _gather(this, chunk, memory)
    publication = await _by_rule(this, material, _covered(this, chunk), kind)
    return replace(publication, asked=False, seconds=time.monotonic() - began)


async def _by_size(this: Round, chunk: Chunk, memory: Memory, why: str) -> Candidate:
    """A summary of a chunk without a look at its texts.

    The memory before is carried on. Should that be too hard itself, it is left behind, and should
    our own code fail on it, it is not shown: this way a chat gets its checkpoint whatever is in it.
    """
    covered, unread = _covered(this, chunk), _unread(this, chunk)
    texts = this.claim.context.texts
    try:
        return await texts.run(summarise.by_size, memory, unread, this.policy, covered, why)
    except (TextTooHard, TextWorkFailed) as error:
        log.warning("compress.memory_not_read", chat=this.claim.lease.chat_id, error=str(error))
        carried_on = memory if isinstance(error, TextWorkFailed) else Memory()
        return summarise.by_size_alone(carried_on, unread, covered, why)


def _unread(this: Round, chunk: Chunk) -> Unread:
    """What a chunk covers, by what is known of its messages without their texts."""
    calls: list[int] = []
    for read in chunk.reads:
        at = read.position
        if at.piece == read.pieces - 1:
            calls_by_step = this.rows[at.message].step_calls
            calls.append(calls_by_step[at.step] if at.step < len(calls_by_step) else 0)
    messages_read = {read.position.message for read in chunk.reads}
    return Unread(len(messages_read), sum(read.tokens for read in chunk.reads), calls)


async def publish(this: Round, until: int, parent: int, publication: Publication) -> int:
    """Publishes a checkpoint that covers so many messages of the path.

    Returns:
        Its id.

    Raises:
        Refused: the chat is not as it was planned on any more.
    """
    checkpoint = await fresh(this, this.rows[until - 1], parent, publication)
    async with this.engine.begin() as connection:
        if publication.asked:
            await _note_answer(connection, this)
        number = await publishing.publish(connection, this.claim.lease, checkpoint)
        await _count(connection, this, publication.candidate, published=number is not None)
    # Raised after the transaction: what the call cost stays counted.
    if number is None:
        raise changed()
    metrics.PUBLISHED.labels(publication.kind).inc()
    log_published(this, checkpoint, publication)
    return number


def log_published(this: Round, checkpoint: Fresh, publication: Publication) -> None:
    """One line for each summary: whose, of how much, how long it took, and who wrote it."""
    log.info(
        "summary.published",
        chat=this.claim.lease.chat_id,
        user=this.claim.lease.user_id,
        kind=checkpoint.kind,
        messages=checkpoint.until.depth,
        tokens_before=checkpoint.until.path_tokens,
        tokens_after=checkpoint.tokens,
        seconds=round(publication.seconds, 1),
        model=checkpoint.summariser,
    )


async def fresh(this: Round, until: MessageRow, parent: int, publication: Publication) -> Fresh:
    """The checkpoint to publish, which takes the place of those that it reaches."""
    candidate = publication.candidate
    memory, text = candidate.memory, candidate.text
    return Fresh(
        parent=parent,
        until=until,
        kind=publication.kind,
        texts=await publishing.pack(this.engine, this.chat, parent, memory, text),
        tokens=candidate.size,
        window=this.claim.lease.window,
        summariser=publication.by,
        prompt_version=prompt.VERSION,
        verdict=candidate.verdict.as_json(),
        replaces=[
            one.id
            for one in this.instead_of
            if one.messages <= until.depth or is_poorer(one.window, this.claim.lease.window)
        ],
    )


async def count_unpublished(this: Round, publication: Publication) -> None:
    """Counts a call that the next one's summary stands for as well.

    Raises:
        Refused: the chat is not as it was planned on any more, so the next call would be in vain.
    """
    async with this.engine.begin() as connection:
        is_held = await work.holds(connection, this.claim.lease)
        if publication.asked:
            await _note_answer(connection, this)
        await _count(connection, this, publication.candidate, published=False)
    if not is_held:
        raise changed()


async def _count_rejected(this: Round, candidate: Candidate) -> None:
    async with this.engine.begin() as connection:
        # It was an answer all the same, so the endpoint is not away.
        await _note_answer(connection, this)
        await _count(connection, this, candidate, published=False)


async def _gather(this: Round, chunk: Chunk, memory: Memory) -> Material:
    """What the chunk is made of."""
    places = [read.position.message for read in chunk.reads]
    ids = {place: this.rows[place].message_id for place in places}
    async with this.engine.connect() as connection:
        packed = await messages.bodies(connection, this.chat, list(ids.values()))
    missing = [place for place in ids if ids[place] not in packed]
    if missing:
        first = this.rows[missing[0]]
        raise Gone(
            f"the text of {len(missing)} messages is not kept any more, the first is"
            f" {first.host_id or first.message_id}; the chat's next request brings it"
        )
    part_of = chunk.part, chunk.parts
    context = this.claim.context
    mask = context.settings.mask_secrets
    # In a process of its own, because any text may take too long or too much memory.
    return await context.texts.run(
        rounds.gathered, packed, ids, chunk.reads, memory, this.policy, part_of, mask
    )


def _covered(this: Round, chunk: Chunk) -> Covered:
    # Inside a long turn, the message that is being read stands for the boundary to come.
    place = chunk.covers - 1 if chunk.covers else chunk.reads[-1].position.message
    last = this.rows[place]
    return Covered(last.depth, last.path_tokens, last.sent_at, this.tail(last))


async def _written(this: Round, material: Material, covered: Covered) -> Publication:
    summariser = this.summariser
    if summariser is None:
        kind = "degraded" if this.claim.lease.fallback else "extractive"
        return await _by_rule(this, material, covered, kind)
    candidate = await _ask(this, summariser, material, covered)
    if candidate.verdict.accepted:
        return Publication(candidate, "llm", summariser.name)
    return await _by_rule(this, material, covered, "degraded", candidate.verdict.reasons)


async def _ask(
    this: Round, summariser: Summariser, material: Material, covered: Covered
) -> Candidate:
    """The first candidate that the gate accepts, or the last one."""
    run = this.claim.context.texts.run
    rejections: tuple[str, ...] = ()
    for _ in range(summarise.CALLS):
        candidate = await summarise.ask(run, summariser, material, this.policy, covered, rejections)
        metrics.SUMMARISER_TOKENS.labels("read").inc(candidate.read)
        metrics.SUMMARISER_TOKENS.labels("written").inc(candidate.wrote)
        verdict = candidate.verdict
        if verdict.accepted:
            break
        rejections = verdict.reasons
        for kind in verdict.kinds:
            metrics.GATE_REJECTIONS.labels(kind).inc()
        log.warning(
            "compress.rejected",
            chat=this.claim.lease.chat_id,
            summariser=summariser.name,
            reasons=list(verdict.kinds),
        )
        await _count_rejected(this, candidate)
    return candidate


async def _by_rule(
    this: Round,
    material: Material,
    covered: Covered,
    kind: str,
    rejections: tuple[str, ...] = (),
) -> Publication:
    run = this.claim.context.texts.run
    candidate = await run(summarise.by_rule, material, this.policy, covered, kind, rejections)
    return Publication(candidate, kind, summarise.BY_CODE)


async def _note_answer(connection: AsyncConnection, this: Round) -> None:
    """Closes the breaker of the endpoint, unless the fallback wrote without asking it."""
    endpoint = this.claim.context.endpoint
    if endpoint and not this.claim.lease.fallback:
        await breakers.succeeded(connection, endpoint)


async def _count(
    connection: AsyncConnection, this: Round, candidate: Candidate, *, published: bool
) -> None:
    # Before the run, because it locks the chat's row, as a deletion does first.
    if this.summariser and candidate.read:
        # `openai:gpt-4o-mini` is named without its kind, as prices are.
        model = this.summariser.name.partition(":")[2]
        await sums.summarised(connection, this.chat, model, candidate.read)
    spent = Spent(candidate.calls, candidate.read, candidate.wrote)
    await runs.count(connection, this.chat, this.claim.run, spent, published=published)
