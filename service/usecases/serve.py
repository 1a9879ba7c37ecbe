"""Use case: say what a request is sent as. A stored summary stands for what was said before.

In: the request as its host built it. Out: the list to send, and what of the request is to be
stored. One indexed read, and no LLM. A summary is served only where the request begins, word for
word, with what the summary has read.

    weigh ─▶ locate ─▶ put the summary in ─▶ fit
                ▲              │ too large: code writes a summary meanwhile
                └──────────────┘
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import structlog
from msgspec.structs import replace as replace_field

from service.errors import KeyMissing, PrecisError, Problem
from service.planning.plan import Checkpoint
from service.request import native, record
from service.request.fit import (
    LEFT_OUT,
    FittedMessages,
    Piece,
    describe_cuts,
    fit_messages,
    make_note,
)
from service.request.shorter import append_note, is_system
from service.storage import contexts
from service.storage.ingests import Transcript
from service.text import tokens
from service.transcript import read_text
from service.usecases.ingest import ingest_transcript
from service.usecases.left_alone import LOOK_EVERY, is_worked_on
from service.usecases.locate import (
    RequestPath,
    count_non_message_tokens,
    find_limit,
    locate_path,
    make_transcript,
    outline_path,
)
from service.usecases.uploads import UserKey
from service.usecases.weigh import (
    CountedRequest,
    HostRequest,
    ServeContext,
    State,
    count_messages,
    count_request,
)

COMPACTED = "Context compacted by Open WebUI itself"
"""The status line where the host compacts a chat by itself."""
_LEAST_LEFT = 0.1  # seconds that are kept for putting it in
_FILES = 50  # that are attached to a question, whose names are kept
_QUESTION = 4  # a summary leaves room for the question, or for this part of the window

Status = Literal["ready", "not_needed", "pending"]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request as it is to be sent.

    Attributes:
        status: `ready` with a summary in the request, `not_needed` where it is small enough, and
            `pending` where it needs a summary that is not written yet.
        fitted: the messages to send; `left_out` counts those of the turn's first request too.
        line: for the user; empty when nothing was changed.
        before, after: tokens of the request as it came and as it is sent, as the provider counts.
        state: for the turn.
        summary: its text, while it serves for the first time.
        covered: how many messages of the request it stands for.
        covered_until: the last of these, as the host calls it where it has told that.
        whole: whether the host is to hand over the whole branch at the end of the turn.
        unstored: what of the request is to be stored; None where all of it is.
    """

    status: Status
    fitted: FittedMessages
    line: str
    before: int
    after: int
    state: State
    summary: str = ""
    covered: int = 0
    covered_until: str | None = None
    whole: bool = False
    unstored: Transcript | None = None


@dataclass(frozen=True, slots=True)
class _Draft:
    """A request as it would be sent before anything is cut.

    Attributes:
        pieces: its messages.
        opening: how many of them stand before its tail.
        newest: the place of the newest question among them.
        status: as of `PreparedRequest`.
        summary: the text of the summary among them.
        covered: how many messages that stands for.
        by: who wrote it, as the status line says it.
    """

    pieces: Sequence[Piece]
    opening: int
    newest: int
    status: Status = "not_needed"
    summary: str = ""
    covered: int = 0
    by: str = ""

    def tokens(self, counted: CountedRequest) -> int:
        """Its size by our own count."""
        return sum(piece.tokens for piece in self.pieces) + counted.non_message_tokens


async def serve_request(context: ServeContext, request: HostRequest) -> PreparedRequest:
    """Says what a request is sent as.

    Where it is too large, it waits for a summary that code writes, as long as it may. What does not
    fit all the same is cut.
    """
    counted = await count_request(context, request)
    came = _make_draft(counted)
    put_in = record.find_record(request.messages, counted.outline.head)
    if put_in is not None or _was_cut(counted):
        return await _serve_later_call(context, counted, came, put_in)
    try:
        path = await locate_path(context, counted)
        if _is_compacted(counted, path):
            return await _serve_compacted(context, counted, path, came)
        whole = await _needs_whole_branch(context, path)
        draft = await _insert_summary(context, counted, path, came)
        if _is_too_large(counted, path, draft):
            path = await _await_summary(context, counted, path, came)
            draft = await _insert_summary(context, counted, path, came)
    except KeyMissing as error:
        log.warning("compress.key_missing", chat=request.chat, why=str(error))
        path = outline_path(counted)
        draft = await _insert_summary(context, counted, path, came)
        return await _fit_draft(context, counted, draft, _make_state(counted, path))
    served = await _finish_request(context, counted, path, draft)
    return replace(served, whole=whole)


def _was_cut(counted: CountedRequest) -> bool:
    """Whether a request begins as one that was cut: by us, or by its host while we were away."""
    request = counted.request
    if request.state and request.state.first_cut:
        return True
    head = request.messages[: counted.outline.head]
    return any(LEFT_OUT in read_text(message) for message in head)


async def store_request(context: ServeContext, unstored: Transcript) -> bool:
    """Stores what a request has shown; False where it may not be stored.

    Nothing is lost by that: the next request shows all of it again.
    """
    try:
        async with context.uploads.turn(UserKey(unstored.tenant, unstored.user)):
            outcome = await ingest_transcript(context, unstored)
    except Problem as error:
        log.info("compress.not_stored", chat=unstored.chat, why=error.type)
        return False
    # The user's turn is over by now, because this waits while Redis is away.
    if outcome.wake_up:
        await context.wake(outcome.wake_up, outcome.delay)
    return True


def _make_draft(counted: CountedRequest) -> _Draft:
    """The request without any change."""
    messages, outline = counted.request.messages, counted.outline
    sized = zip(messages, counted.sizes, strict=True)
    pieces = [Piece(one, size, place) for place, (one, size) in enumerate(sized)]
    return _Draft(pieces, outline.head, outline.newest)


def _is_compacted(counted: CountedRequest, path: RequestPath) -> bool:
    """Whether the host has compacted the chat itself, so that a part of its path is missing.

    A prompt may mention the mark; but then the path is stored from its first message on.
    """
    head = counted.request.messages[: counted.outline.head]
    return record.mentions_compaction(head) and not path.depth


def _is_too_large(counted: CountedRequest, path: RequestPath, draft: _Draft) -> bool:
    """Whether a request needs a summary that could still be written."""
    is_wanted = not (path.stored and path.stored.left_alone)
    size = draft.tokens(counted) * path.factor
    return is_wanted and bool(path.nodes) and size > counted.room


async def _insert_summary(
    context: ServeContext, counted: CountedRequest, path: RequestPath, came: _Draft
) -> _Draft:
    """The request as it `came`, with the summary that is stored for it, if it needs one."""
    stored = path.stored
    # A turn that began without a summary goes on without while it fits: a provider has its
    # beginning in its cache.
    turn = counted.request.state
    began_without = turn is not None and not turn.served
    limit = counted.room if began_without else find_limit(context.settings, counted)
    if came.tokens(counted) * path.factor <= limit or (stored and stored.left_alone):
        return came
    waiting = replace(came, status="pending")
    cut = await _find_first_uncovered(context, counted, path)
    if stored is None or cut is None:
        return waiting
    cipher = await context.database.keyring.find_cipher(counted.request.tenant)
    summary = contexts.open_summary(stored, cipher)
    messages = record.make_record_messages(summary, recall=counted.request.recall)
    seconds = max(counted.seconds_left, _LEAST_LEFT)
    sizes, _ = await count_messages(context, messages, [b"", b""], seconds)
    if not _leaves_room(counted, path, sum(sizes)):
        return waiting
    put_in = [Piece(one, size, None) for one, size in zip(messages, sizes, strict=True)]
    opening = path.begin + len(put_in)
    return _Draft(
        pieces=[*came.pieces[: path.begin], *put_in, *came.pieces[cut:]],
        opening=opening,
        newest=came.newest - cut + opening,
        status="ready",
        summary=summary,
        covered=cut - path.begin,
        by=_describe_writer(stored),
    )


def _describe_writer(stored: contexts.StoredContext) -> str:
    """The writer of a summary, if a model was to write it."""
    if not stored.by_code:
        return ""
    return " by code, because its model fails" if stored.fails else " by code for now"


async def _find_first_uncovered(
    context: ServeContext, counted: CountedRequest, path: RequestPath
) -> int | None:
    """The place of the first message that the stored summary does not cover; None without one."""
    stored, nodes = path.stored, path.nodes
    checkpoint = stored.checkpoint if stored else None
    if checkpoint is None:
        return None
    covered = checkpoint.messages
    cipher = await context.database.keyring.find_cipher(counted.request.tenant)
    # Equal content is the proof: the boundary is the hash of all words down to it.
    if covered > len(nodes) or cipher.keyed_hash(nodes[covered - 1].id) != checkpoint.until:
        return None
    if covered == len(nodes):
        return counted.outline.newest
    return nodes[covered].begin


def _leaves_room(counted: CountedRequest, path: RequestPath, summary: int) -> bool:
    """False for a summary beside which not even a usual question would fit.

    It was written for a larger window, and nothing of a summary is ever cut.
    """
    question = min(counted.question, counted.window // _QUESTION)
    least = count_non_message_tokens(counted, path.begin) + summary + question
    return least * path.factor <= counted.room


async def _await_summary(
    context: ServeContext, counted: CountedRequest, path: RequestPath, came: _Draft
) -> RequestPath:
    """The path once a summary is stored with which the request fits, or none is being written.

    It is stored first, with the size of its question: a worker has code write a summary at once.
    """
    transcript = make_transcript(context.settings, counted, path)
    engine, tenant, chat = context.database.engine, counted.request.tenant, path.chat
    is_kept = False
    try:
        async with asyncio.timeout(counted.seconds_left - _LEAST_LEFT):
            is_kept = await store_request(context, transcript)
            if not is_kept:
                return path
            # No event tells of it: another process or machine writes the summary.
            while await is_worked_on(engine, tenant, chat):
                found = await locate_path(context, counted)
                draft = await _insert_summary(context, counted, found, came)
                if not _is_too_large(counted, found, draft):
                    return replace(found, is_kept=True)
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        log.info("compress.not_written_in_time", chat=chat)
    return replace(await locate_path(context, counted), is_kept=is_kept)


async def _finish_request(
    context: ServeContext, counted: CountedRequest, path: RequestPath, draft: _Draft
) -> PreparedRequest:
    """The draft in the room of its window, with all that is said of it."""
    stored = path.stored
    checkpoint = stored.checkpoint if stored and draft.summary else None
    state = _make_state(counted, path)
    state = replace_field(state, served=checkpoint.id if checkpoint else 0)
    served = await _fit_draft(context, counted, draft, state)
    if stored and checkpoint:
        served = replace(
            served,
            summary=draft.summary if _is_unseen(counted, path, checkpoint) else "",
            covered=draft.covered,
            covered_until=stored.told_until or checkpoint.until,
        )
    if not path.has_news:
        return served
    unstored = make_transcript(context.settings, counted, path)
    return replace(served, unstored=replace(unstored, served=state.served))


def _is_unseen(counted: CountedRequest, path: RequestPath, checkpoint: Checkpoint) -> bool:
    """Whether the user has not been shown a summary yet, in a chat that the host stores."""
    before = counted.request.state
    is_of_this_turn = before is not None and before.served == checkpoint.id
    was_served = path.stored is not None and path.stored.was_served
    return not (was_served or is_of_this_turn or path.expires_in)


async def _serve_later_call(
    context: ServeContext, counted: CountedRequest, draft: _Draft, put_in: int | None
) -> PreparedRequest:
    """A later call of a turn: a summary that was `put_in` stays, and so does what was cut.

    Such a request does not show its path any more, so nothing of it is stored.
    """
    unlocated = replace(outline_path(counted), nodes=())
    state = counted.request.state or _make_state(counted, unlocated)
    if put_in is None:
        draft = replace(draft, status="pending")
    else:
        draft = replace(draft, opening=put_in + 2, status="ready")
    if state.first_left_out and draft.pieces:
        # Open WebUI may have replaced the system message since.
        draft = replace(draft, pieces=_add_note(draft.pieces, make_note(counted.request.recall)))
    return await _fit_draft(context, counted, draft, state)


def _add_note(pieces: Sequence[Piece], note: str) -> list[Piece]:
    """The pieces with the note in their first system message, if they have one without it."""
    first, *rest = pieces
    if not is_system(first.message) or LEFT_OUT in read_text(first.message):
        return list(pieces)
    size = first.tokens + tokens.count(note)
    return [first._replace(message=append_note(first.message, note), tokens=size), *rest]


async def _serve_compacted(
    context: ServeContext, counted: CountedRequest, path: RequestPath, draft: _Draft
) -> PreparedRequest:
    """A request that its host has compacted: nothing is compressed twice."""
    state = replace_field(_make_state(counted, path), above=None, compacted=True)
    served = await _fit_draft(context, counted, draft, state)
    return replace(served, line=served.line or COMPACTED, whole=True)


async def _needs_whole_branch(context: ServeContext, path: RequestPath) -> bool:
    """Whether the host is to tell the whole branch, because it has not told all of it.

    Once it has told a branch that no request shows, as another filter changes it each time, it is
    not asked again.
    """
    stored = path.stored
    if path.expires_in or not path.nodes:
        return False
    if stored is None:
        return True
    if stored.is_told:
        return path.depth < len(path.nodes)
    doubts = path.doubts or await contexts.find_doubts(context.database, stored.chat)
    return not doubts.is_told


def _make_state(counted: CountedRequest, path: RequestPath) -> State:
    """The note of a turn: that of its first call, because later ones show less of the path."""
    request = counted.request
    question = request.messages[counted.outline.newest :]
    above = path.nodes[-1].id if path.nodes else None
    before = request.state
    if before and (before.above, before.model) == (above, request.model):
        return before
    return State(
        chat=path.chat,
        user=request.user,
        model=request.model,
        window=counted.window,
        assumed=counted.assumed,
        factor=path.factor,
        above=above,
        beside=count_non_message_tokens(counted, path.begin),
        question=counted.question,
        files=native.list_files(question[0])[:_FILES] if question else [],
        expires_in=path.expires_in,
    )


async def _fit_draft(
    context: ServeContext, counted: CountedRequest, draft: _Draft, state: State
) -> PreparedRequest:
    """The draft in the room of its window."""
    factor = state.factor
    cutting = partial(
        fit_messages,
        draft.pieces,
        room=int(counted.room / factor) - counted.non_message_tokens,
        opening=draft.opening,
        newest=draft.newest,
        step=int(counted.window / factor) // 8,
        note=make_note(counted.request.recall),
    )
    fitted = await _fit_in_process(context, cutting, counted.seconds_left)
    after = fitted.tokens + counted.non_message_tokens
    # All calls of a turn begin with what the first one was sent.
    fitted = fitted._replace(left_out=state.first_left_out + fitted.left_out)
    cut = describe_cuts(fitted) or state.first_cut
    is_first = state.calls == 0
    before, sent = int(counted.total * factor), int(after * factor)
    line = state.summarised
    if draft.covered:
        line = record.describe_summary(draft.covered, before, sent, draft.by)
    state = replace_field(
        state,
        counted=after if counted.is_counted else 0,
        calls=state.calls + 1,
        first_left_out=fitted.left_out if is_first else state.first_left_out,
        summarised=line,
        cut=cut,
        first_cut=cut if is_first else state.first_cut,
    )
    return PreparedRequest(draft.status, fitted, _make_status_line(line, cut), before, sent, state)


async def _fit_in_process(
    context: ServeContext, cutting: "partial[FittedMessages]", seconds: float
) -> FittedMessages:
    """The pieces in their room. Nearly all requests fit as they are.

    Texts are cut and counted in a process; where that takes too long, sizes are guessed.
    """
    pieces: Sequence[Piece] = cutting.args[0]
    size = sum(piece.tokens for piece in pieces)
    if size <= cutting.keywords["room"]:
        return FittedMessages(tuple(pieces), 0, False, False, size)
    try:
        async with asyncio.timeout(max(seconds, _LEAST_LEFT)):
            return await context.texts.run(cutting, count=tokens.count)
    except (TimeoutError, PrecisError) as error:
        log.warning("compress.not_fitted_in_time", why=type(error).__name__)
        return cutting(count=tokens.estimate_most)


def _make_status_line(summarised: str, cut: str) -> str:
    """The status line. Behind its colon stand sizes, which are others once something was cut."""
    parts = [summarised.partition(":")[0] if cut else summarised, cut]
    line = "; ".join(part for part in parts if part)
    return line[:1].upper() + line[1:]
