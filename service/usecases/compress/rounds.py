"""A worker's round on a chat, from its claim to the published summary.

1. `compress` claims the chat whose turn it is, and keeps the lease while the round lasts.
2. `_read_branch` reads what is stored of a branch that is due, and says who writes.
3. `_plan_for_code` or `_plan_for_model` says which chunks are to be read from which checkpoint on.
4. `_write` makes the summary of a chunk: by the summariser, which may be a mailbox, if the gate
   accepts its answer, or by code. If a text is too hard, `_write_by_size` does.
5. `_publish` publishes it, unless the chat has changed; then comes the next chunk.
6. `outcomes` ends the round.

Code's rounds come first. Code writes a summary of all up to the tail, in a moment and without a
call. It is `interim` if a model is to read the same messages; else it is all the work there is. The
model's rounds go on from the deepest checkpoint that is not interim. What they publish takes the
interim one's place; code then carries it on to where a deeper interim one serves.

Nothing is held in a transaction while a summariser thinks. What it wrote is fenced by the lease,
the epoch and the boundary when it is published.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from service import metrics, request_ids
from service.errors import TextTooHard, TextWorkFailed
from service.planning.plan import (
    Checkpoint,
    Chunk,
    PathMessage,
    Plan,
    find_deepest,
    is_poorer,
    plan,
)
from service.planning.policy import LEAST_WRITER, Policy, count_thinking_tokens
from service.processes import materials
from service.storage import chats, checkpoints, jobs, messages, prompts, runs, work
from service.storage.checkpoints import NewCheckpoint
from service.storage.messages import MessageRow
from service.storage.prompts import Basis
from service.storage.runs import TokenUse, UsageKey
from service.storage.tables import INTERIM
from service.storage.work import Lease
from service.summarising import prompt, summarise
from service.summarising.memory import Memory
from service.summarising.reading import RejectedReply, Summariser
from service.summarising.summarise import Candidate, CoveredSpan, Material, Task, UnreadSpan
from service.usecases.compress import claims, outcomes
from service.usecases.compress.claims import Claim, WorkerContext
from service.usecases.compress.host_models import Mailbox
from service.usecases.compress.outcomes import ChatChanged, RoundOutcome, TextsMissing

CALLS = 8
"""The most calls in one round.

A round that goes well clears the chat's failures, so that a few failed calls do not give up the
work on a long chat.
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkResult:
    """A chat was worked on; it is due again in so many seconds, or not at all."""

    again: float | None


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
    final: Checkpoint | None
    poorer: Sequence[Checkpoint]
    interim: Sequence[Checkpoint]

    @property
    def outdated(self) -> list[Checkpoint]:
        """The interim ones that lack what a model has written since, and serve in its place."""
        final = self.final
        if final is None:
            return []
        # Its parent decides, because its own id only says which of two rounds ended first.
        return [
            one for one in self.interim if one.parent < final.id and one.messages >= final.messages
        ]


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A summary that may be published: its kind, its writer, and the seconds that it took."""

    candidate: Candidate
    kind: str
    by: str
    seconds: float


async def compress(context: WorkerContext) -> WorkResult | None:
    """Does the work of the chat whose turn it is.

    Returns:
        None when there is no work but for a summariser that has enough to do.
    """
    claim = await claims.claim_chat(context)
    if claim is None:
        return None
    with request_ids.use_id(claim.request_id):
        async with claims.keep_lease(claim):
            return WorkResult(await outcomes.end_round(claim, _work_on_chat(claim)))


async def _work_on_chat(claim: Claim) -> RoundOutcome:
    """Works on each branch that is due, the newest first.

    A round that was put down for a reply comes before them, on what it was planned on then.

    Raises:
        ChatChanged: the chat is not as it was planned on any more.
        TextsMissing: a text is not kept any more.
        ReplyPending, PromptUntaken: see `Mailbox`.
        SummariserError: the summariser failed.
        TextWorkFailed: our own code failed even on a summary that gives messages by their size.
        TextProcessAway: no process for texts could be started.
    """
    put_down = claim.put_down
    if claim.lease.compactor == chats.COMPACTS_ITSELF:
        return RoundOutcome("Open WebUI compacts this chat itself")
    if claim.lease.left_alone:
        return RoundOutcome("its user wants this chat left alone")
    if put_down:
        outcome = await _work_on_branch(claim, put_down.leaf, put_down)
        async with claim.engine.begin() as connection:
            await prompts.drop_prompts(connection, claim.chat)
        if not outcome.complete:
            return outcome
    return await _work_on_due_branches(claim)


async def _work_on_due_branches(claim: Claim) -> RoundOutcome:
    nothing, has_worked, model_next = "no branch is due", False, False
    for leaf in claim.lease.leaves:
        if has_worked and await _gives_way(claim):
            return RoundOutcome(complete=False)
        outcome = await _work_on_branch(claim, leaf)
        if not outcome.complete:
            return outcome
        nothing = outcome.nothing
        has_worked |= not nothing
        model_next |= outcome.model_next
    return RoundOutcome("" if has_worked else nothing, model_next=model_next)


async def _gives_way(claim: Claim) -> bool:
    async with claim.engine.connect() as connection:
        return await work.yields_to_others(connection, claim.lease)


async def _work_on_branch(claim: Claim, leaf: str, put_down: Basis | None = None) -> RoundOutcome:
    """Plans a round on a branch, and carries it out."""
    # Read when its turn comes, because it may share what was published for those before it.
    round_ = await _read_branch(claim, leaf, put_down)
    make_plan = _plan_for_model if round_.summariser else _plan_for_code
    planned = await asyncio.to_thread(make_plan, round_)
    outcome = RoundOutcome(planned.reason)
    if planned.chunks:
        outcome = await _carry_out(round_, planned)
    if round_.is_interim and outcome.complete:
        left = await asyncio.to_thread(_plan_for_model, round_)
        outcome = replace(outcome, model_next=bool(left.chunks))
    return outcome


async def _read_branch(claim: Claim, leaf: str, basis: Basis | None) -> Round:
    """Reads what is stored of a branch; of one that was put down, with its `basis`."""
    lease, context = claim.lease, claim.context
    async with claim.engine.connect() as connection:
        rows = await messages.load_path(connection, claim.chat, leaf)
        pointed_to = {row.checkpoint_id or 0 for row in rows}
        final, interim = await checkpoints.load_path_checkpoints(connection, claim.chat, pointed_to)
    basis = basis or _make_basis(lease, rows)
    summariser, read = _choose_summariser(claim, basis)
    # All is in our own tokens, of which a window holds fewer than its provider's.
    window = int(basis.window / basis.usage_factor)
    poorer = [one for one in final if is_poorer(one.window, basis.window)]
    alike = [one for one in final if one not in poorer]
    return Round(
        claim=claim,
        basis=basis,
        policy=context.settings.policy(basis.model, window, basis.overhead, read),
        rows=rows,
        summariser=None if lease.code_writes else summariser,
        is_interim=not lease.ends_work,
        final=find_deepest(_make_path(rows), alike),
        poorer=poorer,
        interim=interim,
    )


def _make_basis(lease: Lease, rows: Sequence[MessageRow]) -> Basis:
    """The basis of a round that begins now."""
    confirmed = [row.message_id for row in rows if row.confirmed]
    return Basis(
        leaf=confirmed[-1] if confirmed else "",
        model=lease.model,
        writer=lease.writer,
        window=lease.window,
        usage_factor=lease.usage_factor,
        overhead=lease.overhead,
    )


def _choose_summariser(claim: Claim, basis: Basis) -> tuple[Summariser | None, int | None]:
    """Chooses who is asked, and how many tokens a call of a host's model may have.

    The second is None for a summariser of the fleet, for which the settings say it.
    """
    context, writer = claim.context, basis.writer
    of_fleet = context.others.get(basis.model, context.summariser)
    if context.summariser or writer is None:
        return of_fleet, None
    settings = context.settings
    window, factor = settings.of_model(writer).window or settings.summariser_window, 1.0
    if writer == basis.model:
        window, factor = basis.window, basis.usage_factor
    if window < LEAST_WRITER:
        return of_fleet, None
    # Before 0.11.2, the factor counts tools too, which no prompt of ours has.
    window = int(window / factor)
    thinking = count_thinking_tokens(window)
    mailbox = Mailbox(context.engine, context.texts, claim.chat, writer, basis, thinking)
    return mailbox, window - thinking


def _make_path(rows: Sequence[MessageRow]) -> list[PathMessage]:
    """The messages as they are planned on."""
    return [
        PathMessage(row.message_id, row.role, row.tokens, tuple(row.step_tokens)) for row in rows
    ]


def _plan_for_code(round_: Round) -> Plan:
    """Plans what code has to write now."""
    usable = [round_.final] if round_.final else []
    reach = 0
    if round_.is_interim:
        # Each message is read once, so code continues its own earlier summaries.
        outdated = round_.outdated
        usable += [one for one in [*round_.interim, *round_.poorer] if one not in outdated]
        # A model's summary should serve at once, whatever the request's size and the tail now.
        reach = max((one.messages for one in outdated), default=0)
    return plan(_make_path(round_.rows), usable, round_.policy, by_code=True, reach=reach)


def _plan_for_model(round_: Round) -> Plan:
    """Plans what a model has to read now: nothing that no second request or host has confirmed."""
    confirmed = _make_path([row for row in round_.rows if row.confirmed])
    usable = [round_.final] if round_.final else []
    is_resumed = round_.basis is round_.claim.put_down
    return plan(confirmed, usable, round_.policy, is_resumed=is_resumed)


async def _carry_out(round_: Round, planned: Plan) -> RoundOutcome:
    """Writes and publishes the chunks in order.

    A round ends early at the end of a turn, after so many calls or if another chat waits.

    Whatever ends a turn is published on its own, so a crash loses one call, or those of one long
    turn.
    """
    memory = await _read_memory(round_.claim, planned.reuse)
    # No summary grows from an interim one, or a model would never read what that covers.
    grown_from = round_.final if round_.is_interim else planned.reuse
    parent = grown_from.id if grown_from else 0
    for number, chunk in enumerate(planned.chunks, 1):
        is_last = number == len(planned.chunks)
        try:
            summary = await _write(round_, chunk, memory)
            published = await _publish(round_, chunk, parent, summary)
        except (TextTooHard, TextWorkFailed) as error:
            # Another try would meet the same texts, and the chat needs its summary now.
            why = str(error)
            log.warning("compress.not_read", chat=round_.claim.lease.chat_id, error=why)
            summary = await _write_by_size(round_, chunk, memory, why)
            published = await _publish(round_, chunk, parent, summary)
        memory = summary.candidate.memory
        if published is None:
            # The next chunk's summary stands for this one as well.
            continue
        parent = parent if round_.is_interim else published
        if not is_last and (number >= CALLS or await _gives_way(round_.claim)):
            return RoundOutcome(complete=False)
    # If the last one was not published, another round would end in the same way: new messages make
    # work due.
    return RoundOutcome(summary.candidate.no_gain)


async def _read_memory(claim: Claim, checkpoint: Checkpoint | None) -> Memory:
    """Reads what the next summary grows from.

    Raises:
        ChatChanged: the checkpoint was deleted since it was planned on.
    """
    if checkpoint is None:
        return Memory()
    memory = await checkpoints.load_memory(claim.engine, claim.chat, checkpoint.id)
    if memory is None:
        raise ChatChanged
    return memory


async def _write(round_: Round, chunk: Chunk, memory: Memory) -> WrittenSummary:
    """Makes the summary of a chunk, by the summariser or by code.

    Raises:
        TextsMissing: a text is not kept any more.
        TextTooHard: a text took too long or too much memory.
        TextWorkFailed: our own code failed on a text.
    """
    began = time.monotonic()
    summariser, texts = round_.summariser, round_.claim.context.texts
    covered = _find_covered_span(round_, chunk)
    material = await _gather(round_, chunk, memory)
    task = Task(material, round_.policy, covered)
    rejections: tuple[str, ...] = ()
    if summariser:
        candidate = await _ask(round_, summariser, task)
        if candidate.verdict.accepted:
            seconds = time.monotonic() - began
            return WrittenSummary(candidate, "llm", summariser.name, seconds)
        # The gate has the last word: code writes what the summariser could not.
        rejections = candidate.verdict.reasons
    kind = _find_kind(round_, is_degraded=bool(rejections))
    candidate = await texts.run(summarise.write_alone, task, kind, rejections)
    return WrittenSummary(candidate, kind, summarise.BY_CODE, time.monotonic() - began)


def _find_covered_span(round_: Round, chunk: Chunk) -> CoveredSpan:
    # Inside a long turn, the message that is being read stands for the boundary to come.
    place = chunk.covers - 1 if chunk.covers else chunk.reads[-1].position.message
    last, leaf = round_.rows[place], round_.rows[-1]
    # At most half of a request: the rest of the tail is covered yet.
    most = round_.policy.request_tokens // 2
    tail = min(leaf.path_tokens - last.path_tokens, most)
    return CoveredSpan(last.depth, last.path_tokens, last.sent_at, tail)


def _find_kind(round_: Round, *, is_degraded: bool) -> str:
    """The kind of what code writes in this round."""
    if round_.is_interim:
        return INTERIM
    return "degraded" if is_degraded or round_.claim.lease.fallback else "extractive"


async def _write_by_size(round_: Round, chunk: Chunk, memory: Memory, why: str) -> WrittenSummary:
    """Makes a summary that gives a chunk's messages by their size, without a look at their texts.

    The memory before is carried on. Should that be too hard itself, it is left behind, and should
    our own code fail on it, it is not shown: this way a chat gets its checkpoint whatever is in it.
    """
    began = time.monotonic()
    covered, unread = _find_covered_span(round_, chunk), _find_unread_span(round_, chunk)
    run = round_.claim.context.texts.run
    try:
        candidate = await run(
            summarise.write_placeholder, memory, unread, round_.policy, covered, why
        )
    except (TextTooHard, TextWorkFailed) as error:
        chat = round_.claim.lease.chat_id
        log.warning("compress.memory_not_read", chat=chat, error=str(error))
        carried_on = memory if isinstance(error, TextWorkFailed) else Memory()
        candidate = summarise.write_bare_placeholder(carried_on, unread, covered, why)
    kind = _find_kind(round_, is_degraded=True)
    return WrittenSummary(candidate, kind, summarise.BY_CODE, time.monotonic() - began)


def _find_unread_span(round_: Round, chunk: Chunk) -> UnreadSpan:
    """The span of a chunk, by what is known of its messages without their texts."""
    calls: list[int] = []
    for read in chunk.reads:
        at = read.position
        # A step that is read in pieces is counted once, with the last of them.
        if at.piece == read.pieces - 1:
            calls_by_step = round_.rows[at.message].step_calls
            calls.append(calls_by_step[at.step] if at.step < len(calls_by_step) else 0)
    messages_read = {read.position.message for read in chunk.reads}
    tokens = sum(read.tokens for read in chunk.reads)
    return UnreadSpan(len(messages_read), tokens, calls)


async def _gather(round_: Round, chunk: Chunk, memory: Memory) -> Material:
    """The material of a chunk."""
    rows, context = round_.rows, round_.claim.context
    places = [read.position.message for read in chunk.reads]
    ids = {place: rows[place].message_id for place in places}
    async with context.engine.connect() as connection:
        packed = await messages.load_bodies(connection, round_.claim.chat, list(ids.values()))
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
        materials.gather_material, packed, ids, chunk.reads, memory, round_.policy, part_of, mask
    )


async def _ask(round_: Round, summariser: Summariser, task: Task) -> Candidate:
    """The first candidate that the gate accepts, or the last one.

    The summariser is asked once more, with its first answer and the gate's reasons, if it must be.
    """
    run = round_.claim.context.texts.run
    rejected: RejectedReply | None = None
    for _ in range(summarise.CALLS):
        candidate = await summarise.ask(run, summariser, task, rejected)
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


async def _publish(round_: Round, chunk: Chunk, parent: int, summary: WrittenSummary) -> int | None:
    """Publishes the checkpoint of a chunk.

    Returns:
        Its id; None if the chunk ends inside a turn, or its summary is not worth publishing.

    Raises:
        ChatChanged: the chat is not as it was planned on any more.
        TextWorkFailed: our own code failed on the summary.
    """
    claim, candidate = round_.claim, summary.candidate
    if chunk.covers is None or candidate.no_gain:
        await _count_unpublished(round_, candidate)
        return None
    until = round_.rows[chunk.covers - 1]
    new = await _make_checkpoint(round_, until, parent, summary)
    async with claim.engine.begin() as connection:
        number = await checkpoints.publish_checkpoint(connection, claim.lease, new)
        await _count(connection, round_, candidate, published=number is not None)
    # Raised after the transaction: what the call cost stays counted.
    if number is None:
        raise ChatChanged
    metrics.PUBLISHED.labels(summary.kind).inc()
    log.info(
        "summary.published",
        chat=claim.lease.chat_id,
        user=claim.lease.user_id,
        kind=new.kind,
        messages=until.depth,
        tokens_before=until.path_tokens,
        tokens_after=new.tokens,
        seconds=round(summary.seconds, 1),
        model=new.summariser,
    )
    return number


async def _make_checkpoint(
    round_: Round, until: MessageRow, parent: int, summary: WrittenSummary
) -> NewCheckpoint:
    """Makes the checkpoint that reaches `until`, which supersedes those for a smaller window."""
    claim, candidate = round_.claim, summary.candidate
    return NewCheckpoint(
        parent=parent,
        until=until,
        kind=summary.kind,
        texts=await checkpoints.pack_texts(
            claim.engine, claim.chat, parent, candidate.memory, candidate.text
        ),
        tokens=candidate.size,
        window=round_.basis.window,
        summariser=summary.by,
        prompt_version=prompt.VERSION,
        verdict=candidate.verdict.as_json(),
        superseded=[one.id for one in round_.poorer],
    )


async def _count_unpublished(round_: Round, candidate: Candidate) -> None:
    """Counts what is not published: it was rejected, or the next one stands for it as well.

    Raises:
        ChatChanged: the chat is not as it was planned on any more: another call would be in vain.
    """
    async with round_.claim.engine.begin() as connection:
        is_held = await work.holds_lease(connection, round_.claim.lease)
        await _count(connection, round_, candidate, published=False)
    if not is_held:
        raise ChatChanged


async def _count(
    connection: AsyncConnection, round_: Round, candidate: Candidate, *, published: bool
) -> None:
    """Counts what a candidate cost. Whatever a model answered, its endpoint is not away."""
    claim = round_.claim
    if candidate.calls and claim.endpoint:
        await jobs.note_success(connection, claim.endpoint)
    if round_.summariser and candidate.read:
        # `openai:gpt-4o-mini` is counted as `gpt-4o-mini`, as chats name their models.
        model = round_.summariser.name.partition(":")[2]
        usage_key = UsageKey(claim.chat.tenant, model)
        await runs.add_sums(connection, {usage_key: Counter(tokens_read=candidate.read)})
    spent = TokenUse(candidate.calls, candidate.read, candidate.wrote)
    await runs.count_run(connection, claim.chat, claim.run, spent, published=published)
