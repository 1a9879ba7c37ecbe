"""A round of work on a chat: read the branch, plan, and for each chunk write and publish.

There are two kinds of rounds, and both go this way.

1. Code's comes first. Code writes a summary of all up to the tail, in a moment and without a call.
   It is `interim` if a model is to read the same messages; else it is all the work there is.
2. The model's goes on from the deepest checkpoint that is not interim. What it publishes takes the
   interim one's place; code then carries it on to where a deeper interim one serves.

Nothing is held in a transaction while a summariser thinks. What it wrote is fenced by the lease,
the epoch and the boundary when it is published.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from service import metrics
from service.errors import PrecisError, TextTooHard, TextWorkFailed
from service.planning.plan import (
    Checkpoint,
    Chunk,
    PathMessage,
    Plan,
    deepest,
    is_poorer,
    plan,
)
from service.planning.policy import LEAST_WRITER, Policy, thinking_tokens
from service.processes import rounds
from service.storage import (
    breakers,
    chats,
    checkpoints,
    messages,
    prompts,
    publishing,
    runs,
    sums,
    work,
)
from service.storage.messages import MessageRow
from service.storage.prompts import Basis
from service.storage.publishing import NewCheckpoint
from service.storage.runs import Spent
from service.storage.tables import INTERIM
from service.storage.work import Lease
from service.summarising import prompt, summarise
from service.summarising.memory import Memory
from service.summarising.reading import RejectedReply, Summariser
from service.summarising.summarise import Candidate, CoveredSpan, Material, UnreadSpan
from service.usecases.compress.lease import Claim
from service.usecases.compress.mailbox import Mailbox

log = structlog.get_logger(__name__)


class ChatChanged(PrecisError):
    """The chat was edited, reset or leased again while its summary was written."""

    def __init__(self) -> None:
        super().__init__("the chat was edited, reset or leased again while its summary was written")


class TextsMissing(PrecisError):
    """Texts that the work needs are not kept any more."""


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """What a round did.

    Attributes:
        nothing: why there was nothing to do, or nothing worth publishing; empty otherwise.
        complete: whether nothing of its kind of work is left to do.
        model_next: whether the model has something to read now.
    """

    nothing: str = ""
    complete: bool = True
    model_next: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """One round of work on one branch.

    Attributes:
        claim: on the chat.
        basis: what it is planned on.
        policy: the chat's budgets.
        rows: the branch, root to leaf.
        summariser: who is asked; None when code writes alone.
        is_interim: whether a model is to read what code writes.
        begun: whether it was put down, and goes on now.
        final: the deepest checkpoint that is not interim, and was written for a window like the
            chat's: one for a smaller window has lost what this one has room for.
        poorer: those for a smaller window, which any new one supersedes.
        interim: those that code has made of the branch.
    """

    claim: Claim
    basis: Basis
    policy: Policy
    rows: Sequence[MessageRow]
    summariser: Summariser | None
    is_interim: bool
    begun: bool
    final: Checkpoint | None
    poorer: Sequence[Checkpoint]
    interim: Sequence[Checkpoint]

    @property
    def outdated(self) -> list[Checkpoint]:
        """The interim ones that lack what a model has written since, and serve in its place."""
        final = self.final
        if final is None:
            return []
        # By what it grew from: its own id says only which of two rounds ended first.
        return [
            one for one in self.interim if one.parent < final.id and one.messages >= final.messages
        ]


@dataclass(frozen=True, slots=True)
class Publication:
    """What is to be published, of which kind it is, who wrote it, and for how many seconds."""

    candidate: Candidate
    kind: str
    by: str
    seconds: float = 0


async def work_round(claim: Claim) -> RoundOutcome:
    """One round of work on each branch that is due, the newest first.

    Raises:
        ChatChanged: the chat is not as it was planned on any more.
        TextsMissing: a text is not kept any more.
        SummariserError: the summariser failed.
        TextTooHard: a text took too long or too much memory.
        TextWorkFailed: work on a text raised an error; so may whatever else is our own code.
        TextProcessAway: no process for texts could be started.
    """
    nothing = _unwanted(claim)
    if nothing:
        return RoundOutcome(nothing)
    if claim.put_down:
        taken_up = await _take_up(claim, claim.put_down)
        if not taken_up.complete:
            return taken_up
    return await _work_on_branches(claim)


async def _work_on_branches(claim: Claim) -> RoundOutcome:
    nothing, model_next = "no branch is due", False
    for number, leaf in enumerate(claim.lease.leaves):
        if number and not nothing and await _gives_way(claim):
            return RoundOutcome(complete=False)
        # Read when its turn comes, because it may share what was published for those before it.
        round_ = await _read_branch(claim, leaf)
        done = await _carry_out(round_, await asyncio.to_thread(_plan_round, round_))
        if not done.complete:
            return done
        nothing = done.nothing if not number else nothing and done.nothing
        model_next |= round_.is_interim and await asyncio.to_thread(_model_has_work, round_)
    return RoundOutcome(nothing, model_next=model_next)


async def _take_up(claim: Claim, basis: Basis) -> RoundOutcome:
    """Takes up the round that was put down for a reply, on what it was planned on then."""
    round_ = await _read_branch(claim, basis.leaf, basis)
    done = await _carry_out(round_, await asyncio.to_thread(_plan_round, round_))
    async with claim.engine.begin() as connection:
        await prompts.drop(connection, claim.chat)
    return done


def _unwanted(claim: Claim) -> str:
    """Why no summary of this chat is wanted; empty when one is."""
    if claim.lease.compactor == chats.COMPACTS_ITSELF:
        return "Open WebUI compacts this chat itself"
    return "its user wants this chat left alone" if claim.lease.left_alone else ""


async def _gives_way(claim: Claim) -> bool:
    async with claim.engine.connect() as connection:
        return await work.gives_way(connection, claim.lease)


async def _read_branch(claim: Claim, leaf: str, basis: Basis | None = None) -> Round:
    """Reads what is stored of a branch; of one that was put down, with its `basis`."""
    lease = claim.lease
    async with claim.engine.connect() as connection:
        rows = await messages.path(connection, claim.chat, leaf)
        pointed_to = {row.checkpoint_id or 0 for row in rows}
        final, interim = await checkpoints.on_path(connection, claim.chat, pointed_to)
    begun = basis is not None
    basis = basis or _basis_of(lease, rows)
    poorer = [one for one in final if is_poorer(one.window, basis.window)]
    alike = [one for one in final if one not in poorer]
    return Round(
        claim=claim,
        basis=basis,
        policy=_policy_of(claim, basis),
        rows=rows,
        summariser=_summariser_of(claim, basis),
        is_interim=not lease.ends_work,
        begun=begun,
        final=deepest(_path(rows), alike),
        poorer=poorer,
        interim=interim,
    )


def _basis_of(lease: Lease, rows: Sequence[MessageRow]) -> Basis:
    """What a round that begins now is planned on."""
    confirmed = [row.message_id for row in rows if row.confirmed]
    leaf = confirmed[-1] if confirmed else ""
    return Basis(
        leaf=leaf,
        model=lease.model,
        writer=lease.writer,
        window=lease.window,
        usage_factor=lease.usage_factor,
        overhead=lease.overhead,
    )


def _policy_of(claim: Claim, basis: Basis) -> Policy:
    """The budgets of a round.

    All is in our own tokens, of which a window holds fewer than its provider's.
    """
    window, writer_window = int(basis.window / basis.usage_factor), _writer_window(claim, basis)
    read = writer_window - thinking_tokens(writer_window) if writer_window else None
    return claim.context.settings.policy(basis.model, window, basis.overhead, read)


def _writer_window(claim: Claim, basis: Basis) -> int | None:
    """The window of the host's model that writes, in tokens; None where none of them does."""
    settings, writer = claim.context.settings, basis.writer
    if claim.context.summariser or writer is None:
        return None
    window, factor = settings.of_model(writer).window or settings.summariser_window, 1.0
    if writer == basis.model:
        window, factor = basis.window, basis.usage_factor
    # Before 0.11.2, the factor counts tools too, which no prompt of ours has.
    return int(window / factor) if window >= LEAST_WRITER else None


def _summariser_of(claim: Claim, basis: Basis) -> Summariser | None:
    """Who is asked in a round; None when code writes."""
    lease, context = claim.lease, claim.context
    if lease.by_code or lease.fallback:
        return None
    writer_window = _writer_window(claim, basis)
    if writer_window is None or basis.writer is None:
        return context.summariser_of(basis.model)
    thinking = thinking_tokens(writer_window)
    return Mailbox(context.engine, context.texts, claim.chat, basis.writer, basis, thinking)


def _path(rows: Sequence[MessageRow]) -> list[PathMessage]:
    """The messages as they are planned on."""
    return [
        PathMessage(row.message_id, row.role, row.tokens, tuple(row.step_tokens)) for row in rows
    ]


def _plan_round(round_: Round) -> Plan:
    """The plan of a round."""
    if round_.summariser:
        return _plan_for_model(round_)
    usable = [round_.final] if round_.final else []
    policy, reach = round_.policy, 0
    if round_.is_interim:
        # Each message is read once: what code wrote before is gone on from.
        outdated = round_.outdated
        usable += [one for one in [*round_.interim, *round_.poorer] if one not in outdated]
        if outdated:
            # What a model wrote is to serve at once, whatever the request's size and the tail now.
            policy = replace(policy, prepare_at=0, step_tokens=1, code_tokens=1)
            reach = max(one.messages for one in outdated)
    return plan(_path(round_.rows), usable, policy, by_code=True, reach=reach)


def _plan_for_model(round_: Round) -> Plan:
    """What a model has to read now: nothing that no second request, and no host, has confirmed."""
    confirmed = _path([row for row in round_.rows if row.confirmed])
    usable = [round_.final] if round_.final else []
    return plan(confirmed, usable, round_.policy, begun=round_.begun)


def _model_has_work(round_: Round) -> bool:
    return bool(_plan_for_model(round_).chunks)


async def _carry_out(round_: Round, planned: Plan) -> RoundOutcome:
    """Writes and publishes the chunks in order, until another chat waits at the end of a turn.

    Whatever ends a turn is published on its own, so a crash loses one call, or those of one long
    turn.
    """
    if not planned.chunks:
        return RoundOutcome(planned.reason)
    progress = Progress(await _memory_of(round_, planned.reuse), _parent(round_, planned))
    first_parent = progress.parent
    try:
        return await _write_chunks(round_, planned, progress)
    finally:
        if progress.parent != first_parent:
            await _let_code_carry_on(round_.claim)


@dataclass(slots=True)
class Progress:
    """How far a round has come: the memory and the checkpoint that the next chunk grows from."""

    memory: Memory
    parent: int


async def _write_chunks(round_: Round, planned: Plan, progress: Progress) -> RoundOutcome:
    done = RoundOutcome(complete=planned.complete)
    for number, chunk in enumerate(planned.chunks):
        publication = await _write(round_, chunk, progress.memory, is_first=number == 0)
        progress.memory = publication.candidate.memory
        no_gain = publication.candidate.no_gain
        if chunk.covers is None or no_gain:
            # The next chunk's summary stands for this one as well. After the last one, another
            # round would end in the same way: new messages make work due.
            await _count_unpublished(round_, publication.candidate)
            done = RoundOutcome(no_gain)
            continue
        superseded = _list_superseded(round_, planned, chunk)
        published = await _publish(round_, chunk.covers, progress.parent, superseded, publication)
        progress.parent = progress.parent if round_.is_interim else published
        done = RoundOutcome(complete=planned.complete)
        if chunk is not planned.chunks[-1] and await _gives_way(round_.claim):
            return RoundOutcome(complete=False)
    return done


async def _let_code_carry_on(claim: Claim) -> None:
    """Makes code's work due after a model's: a deeper interim one may lack what the model wrote."""
    if claim.lease.by_code:
        return
    async with claim.engine.begin() as connection:
        await work.mark_due_for_code(connection, claim.chat)


def _parent(round_: Round, planned: Plan) -> int:
    """The checkpoint that the first one of a plan grows from; 0 for none.

    No summary grows from an interim one, or a model would never read what that covers.
    """
    grown_from = round_.final if round_.is_interim else planned.reuse
    return grown_from.id if grown_from else 0


def _list_superseded(round_: Round, planned: Plan, chunk: Chunk) -> list[int]:
    """The checkpoints that serve no more, however deep they are, once a chunk is published.

    Outdated ones serve until code has carried on what a model wrote as far as they reach.
    """
    is_end = planned.complete and chunk is planned.chunks[-1]
    outdated = round_.outdated if round_.is_interim and is_end else []
    return [one.id for one in [*round_.poorer, *outdated]]


async def _memory_of(round_: Round, parent: Checkpoint | None) -> Memory:
    """What the next summary grows from.

    Raises:
        ChatChanged: the checkpoint was deleted since it was planned on.
    """
    if parent is None:
        return Memory()
    memory = await checkpoints.memory(round_.claim.engine, round_.claim.chat, parent.id)
    if memory is None:
        raise ChatChanged
    return memory


async def _write(round_: Round, chunk: Chunk, memory: Memory, *, is_first: bool) -> Publication:
    """The summary of a chunk, by the summariser or by code.

    Raises:
        TextsMissing: a text is not kept any more.
    """
    began = time.monotonic()
    covered = _covered(round_, chunk)
    # Only the first: of a text further on it is not known that anything fails on it.
    if is_first and round_.claim.why_not_read:
        candidate = await _write_placeholder(round_, chunk, memory, covered)
        kind = _kind_by_code(round_, is_degraded=True)
        publication = Publication(candidate, kind, summarise.BY_CODE)
    else:
        material = await _gather(round_, chunk, memory)
        publication = await _summarise(round_, material, covered)
    return replace(publication, seconds=time.monotonic() - began)


def _covered(round_: Round, chunk: Chunk) -> CoveredSpan:
    # Inside a long turn, the message that is being read stands for the boundary to come.
    place = chunk.covers - 1 if chunk.covers else chunk.reads[-1].position.message
    last = round_.rows[place]
    # At most half of a request: the rest of the tail is covered yet.
    tail = min(round_.rows[-1].path_tokens - last.path_tokens, round_.policy.request_tokens // 2)
    return CoveredSpan(last.depth, last.path_tokens, last.sent_at, tail)


def _kind_by_code(round_: Round, *, is_degraded: bool) -> str:
    """The kind of what code writes in this round."""
    if round_.is_interim:
        return INTERIM
    return "degraded" if is_degraded or round_.claim.lease.fallback else "extractive"


async def _write_placeholder(
    round_: Round, chunk: Chunk, memory: Memory, covered: CoveredSpan
) -> Candidate:
    """A summary of a chunk that gives its messages by their size, without a look at their texts.

    The memory before is carried on. Should that be too hard itself, it is left behind, and should
    our own code fail on it, it is not shown: this way a chat gets its checkpoint whatever is in it.
    """
    unread, why = _unread(round_, chunk), round_.claim.why_not_read
    run = round_.claim.context.texts.run
    try:
        return await run(summarise.write_by_size, memory, unread, round_.policy, covered, why)
    except (TextTooHard, TextWorkFailed) as error:
        chat = round_.claim.lease.chat_id
        log.warning("compress.memory_not_read", chat=chat, error=str(error))
        carried_on = memory if isinstance(error, TextWorkFailed) else Memory()
        return summarise.write_size_only(carried_on, unread, covered, why)


def _unread(round_: Round, chunk: Chunk) -> UnreadSpan:
    """What a chunk covers, by what is known of its messages without their texts."""
    calls: list[int] = []
    for read in chunk.reads:
        at = read.position
        if at.piece == read.pieces - 1:
            calls_by_step = round_.rows[at.message].step_calls
            calls.append(calls_by_step[at.step] if at.step < len(calls_by_step) else 0)
    messages_read = {read.position.message for read in chunk.reads}
    return UnreadSpan(len(messages_read), sum(read.tokens for read in chunk.reads), calls)


async def _gather(round_: Round, chunk: Chunk, memory: Memory) -> Material:
    """What the chunk is made of."""
    rows, context = round_.rows, round_.claim.context
    places = [read.position.message for read in chunk.reads]
    ids = {place: rows[place].message_id for place in places}
    async with context.engine.connect() as connection:
        packed = await messages.bodies(connection, round_.claim.chat, list(ids.values()))
    missing = [place for place in ids if ids[place] not in packed]
    if missing:
        first = rows[missing[0]]
        raise TextsMissing(
            f"the text of {len(missing)} messages is not kept any more, the first is"
            f" {first.host_id or first.message_id}; the chat's next request brings it"
        )
    part_of = chunk.part, chunk.parts
    mask = context.settings.mask_secrets
    # In a process of its own, because any text may take too long or too much memory.
    return await context.texts.run(
        rounds.gathered, packed, ids, chunk.reads, memory, round_.policy, part_of, mask
    )


async def _summarise(round_: Round, material: Material, covered: CoveredSpan) -> Publication:
    """Asks the summariser, if there is one; code writes if none of its answers is accepted."""
    rejections: tuple[str, ...] = ()
    if round_.summariser:
        candidate = await _ask(round_, round_.summariser, material, covered)
        if candidate.verdict.accepted:
            return Publication(candidate, "llm", round_.summariser.name)
        rejections = candidate.verdict.reasons
    kind = _kind_by_code(round_, is_degraded=bool(rejections))
    run = round_.claim.context.texts.run
    candidate = await run(summarise.write_alone, material, round_.policy, covered, kind, rejections)
    return Publication(candidate, kind, summarise.BY_CODE)


async def _ask(
    round_: Round, summariser: Summariser, material: Material, covered: CoveredSpan
) -> Candidate:
    """The first candidate that the gate accepts, or the last one.

    The summariser is asked once more, with its first answer and the gate's reasons, if it must be.
    """
    run = round_.claim.context.texts.run
    rejected: RejectedReply | None = None
    for _ in range(summarise.CALLS):
        candidate = await summarise.ask(run, summariser, material, round_.policy, covered, rejected)
        metrics.SUMMARISER_TOKENS.labels("read").inc(candidate.read)
        metrics.SUMMARISER_TOKENS.labels("written").inc(candidate.wrote)
        verdict = candidate.verdict
        if verdict.accepted:
            break
        rejected = candidate.rejected
        for kind in verdict.kinds:
            metrics.GATE_REJECTIONS.labels(kind).inc()
        log.warning(
            "compress.rejected",
            chat=round_.claim.lease.chat_id,
            summariser=summariser.name,
            reasons=list(verdict.kinds),
        )
        await _count_unpublished(round_, candidate)
    return candidate


async def _publish(
    round_: Round, covers: int, parent: int, superseded: Sequence[int], publication: Publication
) -> int:
    """Publishes a checkpoint that covers so many messages of the branch.

    Returns:
        Its id.

    Raises:
        ChatChanged: the chat is not as it was planned on any more.
    """
    claim, candidate = round_.claim, publication.candidate
    until = round_.rows[covers - 1]
    new = NewCheckpoint(
        parent=parent,
        until=until,
        kind=publication.kind,
        texts=await publishing.pack(
            claim.engine, claim.chat, parent, candidate.memory, candidate.text
        ),
        tokens=candidate.size,
        window=round_.basis.window,
        summariser=publication.by,
        prompt_version=prompt.VERSION,
        verdict=candidate.verdict.as_json(),
        superseded=superseded,
    )
    async with claim.engine.begin() as connection:
        number = await publishing.publish(connection, claim.lease, new)
        await _count(connection, round_, candidate, published=number is not None)
    # Raised after the transaction: what the call cost stays counted.
    if number is None:
        raise ChatChanged
    metrics.PUBLISHED.labels(publication.kind).inc()
    log.info(
        "summary.published",
        chat=claim.lease.chat_id,
        user=claim.lease.user_id,
        kind=new.kind,
        messages=until.depth,
        tokens_before=until.path_tokens,
        tokens_after=new.tokens,
        seconds=round(publication.seconds, 1),
        model=new.summariser,
    )
    return number


async def _count_unpublished(round_: Round, candidate: Candidate) -> None:
    """Counts what is not published: it was rejected, or the next one stands for it as well.

    Raises:
        ChatChanged: the chat is not as it was planned on any more: another call would be in vain.
    """
    async with round_.claim.engine.begin() as connection:
        is_held = await work.holds(connection, round_.claim.lease)
        await _count(connection, round_, candidate, published=False)
    if not is_held:
        raise ChatChanged


async def _count(
    connection: AsyncConnection, round_: Round, candidate: Candidate, *, published: bool
) -> None:
    """Counts what a candidate cost. Whatever a model answered, its endpoint is not away."""
    claim = round_.claim
    if candidate.calls and claim.endpoint:
        await breakers.succeeded(connection, claim.endpoint)
    # Before the run, because it locks the chat's row, as a deletion does first.
    if round_.summariser and candidate.read:
        # `openai:gpt-4o-mini` is named without its kind, as prices are.
        model = round_.summariser.name.partition(":")[2]
        await sums.summarised(connection, claim.chat, model, candidate.read)
    spent = Spent(candidate.calls, candidate.read, candidate.wrote)
    await runs.count(connection, claim.chat, claim.run, spent, published=published)
