"""Ends rounds, and decides what that means for the chat: due again, waiting, or given up.

| a round ends with                     | run            | the work                              |
|---------------------------------------|----------------|---------------------------------------|
| `RoundOutcome`                        | done, nothing  | ends, or goes on at once              |
| `TextsMissing`                        | waits          | ends until the chat's next request    |
| `ReplyPending`                        | waits          | waits for the reply of a host's model |
| `PromptUntaken`                       | waits          | ends until the next turn              |
| `ChatChanged`                         | refused        | begins again at once                  |
| the worker stops, a key is missing    | released       | begins again, here or elsewhere       |
| the database is away                  | released       | begins again when it is back          |
| `SummariserError`                     | failed         | backs off, up to twelve times         |
| any other error                       | internal error | backs off, up to twelve times; code's |
|                                       |                | interim work ends until it is due     |
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from time import perf_counter

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from service import metrics
from service.errors import (
    KeyMissing,
    PrecisError,
    SummariserAway,
    SummariserError,
    TextProcessAway,
    TextWorkFailed,
    describe_unexpected,
    format_trace,
)
from service.storage import database, jobs, prompts, runs, work
from service.usecases.compress.claims import Claim
from service.usecases.compress.host_models import PromptUntaken, ReplyPending

# Failed attempts after which work is dead, and waits for `precis jobs retry`: 24 minutes after the
# first, when the built-in summariser has failed six times too.
MOST_ATTEMPTS = 12
_LONGEST_DELAY = 300  # seconds
_LACK_PAUSE = 10  # seconds, when this process has no text process, or not the key of a text
_REFUSAL_PAUSE = 30  # seconds, when the database stored nothing
_OUTAGE_PAUSE = 1  # seconds, when the database was away

log = structlog.get_logger(__name__)


class ChatChanged(PrecisError):
    """The chat was edited, reset or leased again while its summary was written."""

    def __init__(self) -> None:
        super().__init__("the chat was edited, reset or leased again while its summary was written")


class TextsMissing(PrecisError):
    """Texts that the work needs are not kept any more."""


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """The outcome of a round that went well.

    Attributes:
        nothing: why there was nothing to do, or nothing worth publishing; empty otherwise.
        complete: whether nothing of its kind of work is left to do.
        model_next: whether the model has something to read now.
    """

    nothing: str = ""
    complete: bool = True
    model_next: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """The way in which a lease is given back after a round that did not go well.

    Attributes:
        outcome: of the run, in one word.
        reason: the failure, for everybody.
        detail: the same for the runs of its own chat alone, because it may quote the chat.
        delay: seconds until the work is due again; None gives it up.
        counts: the work itself failed.
        is_away: its summariser did not answer, which counts for the breaker.
    """

    outcome: str
    reason: str
    detail: str
    delay: float | None
    counts: bool = False
    is_away: bool = False


async def end_round(claim: Claim, round_: Awaitable[RoundOutcome]) -> float | None:
    """Awaits a round, and ends it.

    Returns:
        Seconds until the chat is due again, as far as this worker knows; None when it is not.
    """
    try:
        return await _end_well(claim, await round_)
    except asyncio.CancelledError:
        release = _release(PrecisError("the worker was stopped"), delay=0)
        # Shielded, because the worker may be cancelled once more while it stops.
        await asyncio.shield(give_back(claim, release))
        raise
    except (TextsMissing, ReplyPending, PromptUntaken) as error:
        return await _end_waiting(claim, error)
    except Exception as error:
        return await give_back(claim, _judge(claim, error))


async def _end_well(claim: Claim, outcome: RoundOutcome) -> float | None:
    did_nothing = bool(outcome.nothing)
    name = runs.NOTHING if did_nothing else "done"
    async with claim.engine.begin() as connection:
        await _end_run(connection, claim, name, outcome.nothing, did_nothing=did_nothing)
        return await _finish_work(connection, claim, outcome)


async def _finish_work(
    connection: AsyncConnection, claim: Claim, outcome: RoundOutcome
) -> float | None:
    again, next_ = not outcome.complete, outcome.model_next
    if claim.lease.by_code:
        return await work.finish_code(connection, claim.lease, again=again, model_next=next_)
    return await work.finish_model(connection, claim.lease, again=again)


async def _end_waiting(
    claim: Claim, why: TextsMissing | ReplyPending | PromptUntaken
) -> float | None:
    """Ends a round that waits for something, which is no failure; what is published serves."""
    is_put_down = isinstance(why, ReplyPending)
    async with claim.engine.begin() as connection:
        is_held = await _end_run(
            connection,
            claim,
            "waits",
            str(why),
            did_nothing=is_put_down,
            drops_prompt=not is_put_down,
        )
        if isinstance(why, ReplyPending):
            if why.new and is_held:
                await prompts.store_prompt(connection, claim.chat, why.new)
            return await work.give_back(connection, claim.lease, None, why.seconds)
        # After code's interim work, the model's round finds out itself whether it has its texts.
        outcome = RoundOutcome(model_next=not claim.lease.ends_work)
        return await _finish_work(connection, claim, outcome)


async def give_back(claim: Claim, release: Release) -> float | None:
    """Ends a round that failed.

    When the database is away, the lease is left to expire, and a sweep finds the work.

    Returns:
        As `end_round`.
    """
    log.warning(
        "compress.given_back",
        chat=claim.lease.chat_id,
        outcome=release.outcome,
        reason=release.reason,
        attempt=claim.lease.attempts,
    )
    # Without an error the attempt does not count: the chat is not to blame.
    error = release.reason if release.counts else None
    try:
        async with claim.engine.begin() as connection:
            if release.is_away and claim.endpoint:
                await jobs.note_failure(connection, claim.endpoint, release.reason)
            await _end_run(
                connection, claim, release.outcome, release.detail, drops_prompt=release.counts
            )
            return await work.give_back(connection, claim.lease, error, release.delay)
    except Exception as failure:
        if not database.is_away(failure):
            raise
        log.warning("compress.lease_left", chat=claim.lease.chat_id, error=type(failure).__name__)
        return None


async def _end_run(
    connection: AsyncConnection,
    claim: Claim,
    outcome: str,
    reason: str,
    *,
    did_nothing: bool = False,
    drops_prompt: bool = True,
) -> bool:
    """Notes how the round ended, for operators and for their monitors.

    One that did nothing leaves no row. The prompt of a model's round goes with it, unless the round
    is put down for the reply.

    Returns:
        Whether the lease is still held.
    """
    # The chat's row first, as whoever edits a chat locks it: or each would wait for the other.
    is_held = await work.holds_lease(connection, claim.lease)
    published = await runs.end_run(connection, claim.chat, claim.run, outcome, reason)
    if published and not claim.lease.by_code:
        # A deeper interim summary may lack what the model wrote.
        await work.mark_due_for_code(connection, claim.chat)
    if did_nothing:
        await runs.drop_idle(connection, claim.chat, claim.run)
    if drops_prompt and not claim.lease.by_code:
        await prompts.drop_prompts(connection, claim.chat)
    metrics.RUNS.labels(outcome).observe(perf_counter() - claim.began)
    return is_held


def _judge(claim: Claim, error: Exception) -> Release:
    """Decides what the failure of a round means for its chat."""
    match error:
        case ChatChanged():
            return _release(error, delay=0, outcome="refused")
        case TextProcessAway() | KeyMissing():  # what this process lacks says nothing of the chat
            return _release(error, delay=_LACK_PAUSE)
        case PrecisError():
            # Code's work asks nobody, so its errors are our own.
            is_own = claim.lease.by_code or isinstance(error, TextWorkFailed)
            return _put_off(claim, runs.OWN_ERROR if is_own else "failed", error)
    if database.is_away(error):  # which says nothing about the chat, nor about the summariser
        refusal = database.explain_refusal(error)
        pause = _REFUSAL_PAUSE if refusal else _OUTAGE_PAUSE
        return _release(PrecisError(refusal or "the database was away"), delay=pause)
    log.error("compress.failed", chat=claim.lease.chat_id, exception=format_trace(error))
    return _put_off(claim, runs.OWN_ERROR, error)


def _release(error: PrecisError, *, delay: float, outcome: str = "released") -> Release:
    """The chat is not to blame: the attempt does not count."""
    return Release(outcome, str(error), str(error), delay)


def _put_off(claim: Claim, outcome: str, error: Exception) -> Release:
    """Puts the work off, longer each time, until it is given up.

    No chat is given up because a summariser is away.
    """
    is_away = isinstance(error, SummariserAway)
    attempts = claim.lease.attempts
    is_given_up = attempts >= MOST_ATTEMPTS and not is_away
    if not claim.lease.ends_work:
        # Code's interim work: attempts of it are not counted. The model's work goes on without it,
        # and its summary makes code's work due again, as do new messages.
        is_given_up = True
    delay = None if is_given_up else min(_LONGEST_DELAY, 2.0**attempts)
    reason = str(error) if isinstance(error, PrecisError) else describe_unexpected(error)
    detail = error.detail if isinstance(error, SummariserError) else reason
    return Release(outcome, reason, detail, delay, counts=True, is_away=is_away)
