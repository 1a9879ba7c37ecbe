"""What each end of a round means for the chat: due again, and when, waiting, or given up."""

import asyncio

import structlog

from service.errors import (
    KeyMissing,
    PrecisError,
    SummariserAway,
    SummariserError,
    TextProcessAway,
    TextTooHard,
    TextWorkFailed,
    class_and_place,
    trace,
)
from service.storage import outage, prompts, runs, work
from service.usecases.compress.lease import TRIES, Claim, Release, end, give_back
from service.usecases.compress.mailbox import PromptUntaken, ReplyPending
from service.usecases.compress.rounds import ChatChanged, RoundOutcome, TextsMissing, work_round

# Failed attempts after which work is dead, and waits for `precis jobs retry`: 24 minutes after the
# first, when the built-in summariser has failed six times too.
MOST_ATTEMPTS = 12
_LONGEST_DELAY = 300  # seconds
_LACK_PAUSE = 10  # seconds, when this process has no text process, or not the key of a text
_REFUSAL_PAUSE = 30  # seconds, when the database stored nothing
_OUTAGE_PAUSE = 1  # seconds, when the database was away

log = structlog.get_logger(__name__)


async def attempt(claim: Claim) -> float | None:
    """One round of work, and what its end means.

    Returns:
        Seconds until the chat is due again; None when it is not.
    """
    try:
        return await _end(claim, await work_round(claim))
    except asyncio.CancelledError:
        stopped = _released(PrecisError("the worker was stopped"), delay=0)
        # Shielded, because the worker may be cancelled once more while it stops.
        await asyncio.shield(give_back(claim, stopped))
        raise
    except ReplyPending as pending:
        return await _await_reply(claim, pending)
    except (TextsMissing, PromptUntaken) as error:
        return await _wait_for_chat(claim, str(error))
    except Exception as error:
        return await give_back(claim, _meaning(claim, error))


def _meaning(claim: Claim, error: Exception) -> Release:
    """What the failure of a round means for its chat."""
    match error:
        case ChatChanged():
            return _released(error, delay=0, outcome="refused")
        case TextTooHard():
            return _failed(claim, runs.TOO_HARD, error)
        case TextWorkFailed():
            return _failed(claim, runs.OWN_ERROR, error)
        case TextProcessAway() | KeyMissing():  # what this process lacks says nothing of the chat
            return _released(error, delay=_LACK_PAUSE)
        case PrecisError():
            # Code's work asks nobody, so its errors are our own.
            outcome = runs.OWN_ERROR if claim.lease.by_code else "failed"
            return _failed(claim, outcome, error)
    if outage.is_away(error):  # which says nothing about the chat, nor about the summariser
        refusal = outage.refusal(error)
        pause = _REFUSAL_PAUSE if refusal else _OUTAGE_PAUSE
        return _released(PrecisError(refusal or "the database was away"), delay=pause)
    log.error("compress.failed", chat=claim.lease.chat_id, exception=trace(error))
    return _failed(claim, runs.OWN_ERROR, error)


def _released(error: PrecisError, *, delay: float, outcome: str = "released") -> Release:
    """The chat is not to blame: the attempt does not count."""
    reason, detail = _words(error)
    return Release(outcome, reason, detail, delay)


def _failed(claim: Claim, outcome: str, error: Exception) -> Release:
    """Puts the work off, longer each time, until it is given up.

    No chat is given up because a summariser is away or a text is too hard, nor for an error of our
    own code while there is more to leave out.
    """
    # The column counts those of the work that ends all.
    attempts = claim.lease.attempts if claim.lease.ends_work else len(claim.troubles) + 1
    away = isinstance(error, SummariserAway)
    # The next round may do without the texts: that can go well at any time. One that did so already
    # may have failed on others, further on.
    reads_less = outcome == runs.OWN_ERROR and len(claim.troubles) <= TRIES
    spared = away or isinstance(error, TextTooHard) or reads_less
    dead = attempts >= MOST_ATTEMPTS and not spared
    # Several places of one long chat may fail: each is tried again as soon as the first.
    tries = len(claim.troubles) + 1 if reads_less else attempts
    delay = None if dead else min(_LONGEST_DELAY, 2.0**tries)
    reason, detail = _words(error)
    return Release(outcome, reason, detail, delay, counts=True, away=away)


def _words(error: Exception) -> tuple[str, str]:
    """What an error says to everybody, and what it says in the runs of its own chat."""
    if isinstance(error, SummariserError):
        return str(error), error.detail
    if isinstance(error, PrecisError):
        return str(error), str(error)
    text = class_and_place(error)
    return text, text


async def _end(claim: Claim, done: RoundOutcome) -> float | None:
    """Ends a round that went well."""
    did_nothing, again = bool(done.nothing), not done.complete
    outcome = "nothing to do" if did_nothing else "done"
    reason = done.nothing or claim.why_not_read
    async with claim.engine.begin() as connection:
        await end(connection, claim, outcome, reason, did_nothing=did_nothing)
        if claim.lease.by_code:
            next_ = done.model_next
            return await work.finish_code(connection, claim.lease, again=again, model_next=next_)
        await prompts.drop(connection, claim.chat)
        return await work.finish_model(connection, claim.lease, again=again)


async def _await_reply(claim: Claim, pending: ReplyPending) -> float | None:
    """Ends a round that waits for a reply; code's summaries serve meanwhile."""
    async with claim.engine.begin() as connection:
        is_held = await work.holds(connection, claim.lease)
        await end(connection, claim, "waits", str(pending), did_nothing=True)
        if pending.new and is_held:
            await prompts.store(connection, claim.chat, pending.new)
        return await work.await_reply(connection, claim.lease, pending.seconds)


async def _wait_for_chat(claim: Claim, reason: str) -> float | None:
    """Ends the work until the chat goes on, which is no failure.

    Its texts were deleted, and the next request has them; or nobody asks the host's model.
    """
    async with claim.engine.begin() as connection:
        await end(connection, claim, "waits", reason)
        if claim.lease.by_code:
            next_ = not claim.lease.ends_work
            return await work.finish_code(connection, claim.lease, again=False, model_next=next_)
        await prompts.drop(connection, claim.chat)
        return await work.finish_model(connection, claim.lease, again=False)
