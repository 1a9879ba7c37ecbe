"""The token budgets of a chat, from its model's window and from what a provider counts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

DEFAULT_WINDOW = 131_072
APPLY_AT = 0.763
"""Share of a window above which a request is served with a summary.

100,000 tokens of the default window.
"""
APPLY_PARTS = 4096
"""The share is counted in so many parts.

PostgreSQL and Python then divide whole numbers, and agree.
"""
KEEP_MESSAGES = 10
SUMMARY_SHARE = 0.36
"""The summary's share of a window of 16,384 tokens, at most; see `Policy.sized` for others."""
PROMPT_TOKENS = 560
"""Tokens that the wording of `summarising.prompt` may cost; a test holds it below."""
REPAIR_TOKENS = 400
"""Tokens that the faults in a second call may cost. The call also shows the first answer in place
of the last state; that may be a quarter longer than a state."""
CALL_WORTH = 4
"""A call is worth so many times the tokens that it reads again."""
_THINKING = 4096  # tokens
_STATE_SHARE = 0.7  # of a summary that the state may have, whatever else there is;
_STATE_ROOT = 25  # and so many times the root of the summary's tokens: what there is to tell of a
# long chat grows slower than the chat
_LEAST_STATE = 128  # tokens
_FILLED = 0.5  # of what a request may have; the rest is left for it to grow until the next summary
_TAIL = 0.25  # of that is for the tail
_NEEDED = 0.08  # of what it covers a summary may have even where that is more than its share
_LEAST_ROOM = 512  # tokens: beside tools that leave less, no chat fits
_LEFT = 0.75  # of what tools leave is as good as a window without tools
_CODE_STEPS = 4  # while requests are too large, code covers this part of what they leave to grow
_LEAST_CHUNK = 512  # tokens that a call may read, however small the summariser's window is
_SHARE_WINDOW = 16_384  # tokens: the window in which the summary has its share


def split_share(share: float) -> int:
    """A share of a window in whole `APPLY_PARTS`."""
    return round(share * APPLY_PARTS)


def apply_at(window: int, share: float = APPLY_AT) -> int:
    """Tokens above which a request for a model with this window is served with a summary."""
    return window * split_share(share) // APPLY_PARTS


def count_output_tokens(state_tokens: int) -> int:
    """The tokens that a summariser may write: its choices, and a state of `state_tokens`.

    Models overshoot, and of an answer that meets the limit the end is lost.
    """
    return state_tokens * 3 // 2 + 256


LEAST_WRITER = 6144
"""The least window in tokens of a host's model that writes: in a smaller one, a call reads more
again than it reads anew."""


def count_thinking_tokens(window: int) -> int:
    """The tokens of its window that a model may think before it writes a summary.

    The host's own models may be such ones, and most of them cannot be told to do without.
    """
    return min(_THINKING, window // 8)


def find_state_room(whole: int, summariser_window: int) -> int:
    """The tokens of a summary of `whole` tokens that the state may have."""
    wanted = min(int(whole * _STATE_SHARE), int(_STATE_ROOT * sqrt(whole)))
    state = max(min(wanted, summariser_window // 8), _LEAST_STATE)
    # `_LEAST_STATE` may be nearly all of a small summary; the rest has a quarter.
    return min(state, whole * 3 // 4)


@dataclass(frozen=True, slots=True)
class Policy:
    """The token budgets in force for one chat. `Policy.sized` derives them from its model's window.

    Attributes:
        apply_at: a request above this needs a summary.
        prepare_at: background work starts here.
        request_tokens: half of what a request's messages may have; a summary never has more.
        keep_tokens: bound on the verbatim tail, unless the two newest turns are larger.
        keep_messages: wanted length of the tail; fewer until the tail fits into `keep_tokens`.
        step_tokens: so many newly covered tokens are worth a summariser's call in any case; fewer
            are where the summary that it reads again is short.
        code_tokens: the least that is worth a summary by code where the next request needs one: it
            costs no call.
        state_tokens: bound on the state that a summariser writes.
        summary_tokens: what a summary may have in any case; see `summary_room`.
        entry_tokens: how much of the pins a summariser is shown.
        chunk_tokens: how much of the conversation one call may read.
        overhead: tokens of each request that are no messages (system prompt, tool specifications).
    """

    apply_at: int
    prepare_at: int
    request_tokens: int
    keep_tokens: int
    keep_messages: int
    step_tokens: int
    code_tokens: int
    state_tokens: int
    summary_tokens: int
    entry_tokens: int
    chunk_tokens: int
    overhead: int

    def step_by_code(self, *, is_urgent: bool) -> int:
        """The least number of newly covered tokens that is worth a summary by code.

        Little where the next request needs one; else what fits beside tail and summary.
        """
        if is_urgent:
            return self.code_tokens
        return min(self.step_tokens, _CODE_STEPS * self.code_tokens)

    def summary_room(self, covered: int, tail: int) -> int:
        """Tokens that a summary may have.

        That is a maximum, as far as what is covered needs it. A large tail takes of the room to
        grow before it takes of the summary: it is gone soon, and what was lost stays lost.

        Args:
            covered: tokens of what it stands for.
            tail: tokens of what follows it.
        """
        needed = max(self.summary_tokens, int(covered * _NEEDED))
        # The next summary by code needs its step below the limit.
        left = self.apply_at - self.overhead - self.code_tokens - tail
        return max(min(needed, left, self.request_tokens), self.request_tokens // 4)

    @classmethod
    def sized(
        cls,
        window: int = DEFAULT_WINDOW,
        summariser_window: int = 32_768,
        *,
        overhead: int = 0,
        apply_share: float = APPLY_AT,
        keep_messages: int = KEEP_MESSAGES,
        summary_share: float = SUMMARY_SHARE,
    ) -> "Policy":
        """Budgets in proportion to the room that the window has for messages.

        The room is the window whose `apply_at` is what `overhead` leaves of this one's. A summary
        takes at most `summary_share` of a room of 16,384 tokens, and of others in proportion to the
        root of the room: a chat in a small window has as much to be remembered as one in a large.
        Where that is less than 8 % of what it covers, it takes as much, up to half of what a
        request may have: the other half is the tail's, and what the next summary covers.

        Up to 70 % of the summary is the state, and less of a large one; each call reads and writes
        it again. All else costs no call anything.

        A call is worth a step of four times what it reads again. In a small window that is more
        than what fits beside the tail and the summary: there, summaries by code serve meanwhile.

        Args:
            window: the model's window.
            summariser_window: the summariser's. One with a small window is asked for less.
            overhead: tokens of each request that are no messages.
            apply_share: share of the window above which a summary is served.
            keep_messages: wanted length of the tail.
            summary_share: see above.
        """
        room = _find_room(window, overhead, apply_share)
        threshold = apply_at(room, apply_share)
        filled = int(threshold * _FILLED)
        keep = int(filled * _TAIL)
        wanted = int(summary_share * sqrt(room * _SHARE_WINDOW))
        whole = min(wanted, filled - keep)
        state = find_state_room(whole, summariser_window)
        entries = min(1000, whole // 7, summariser_window // 16)
        again = state + entries + PROMPT_TOKENS
        return cls(
            apply_at=min(max(apply_at(window, apply_share), overhead + threshold), window),
            prepare_at=min(window // 2, apply_at(window, apply_share) * 2 // 3),
            request_tokens=filled,
            keep_tokens=keep,
            keep_messages=keep_messages,
            # A call should read much more that is new than it reads again.
            step_tokens=max(room // 5, CALL_WORTH * again),
            code_tokens=(threshold - filled) // _CODE_STEPS,
            state_tokens=state,
            summary_tokens=whole,
            entry_tokens=entries,
            chunk_tokens=_count_chunk_tokens(summariser_window, state, again),
            overhead=overhead,
        )


def _find_room(window: int, overhead: int, apply_share: float) -> int:
    """Tokens for messages: the window whose `apply_at` is what `overhead` leaves of this one's."""
    beside = ceil(overhead * APPLY_PARTS / split_share(apply_share))
    # Where tools take nearly all, what is left of the window has to do, with a part of it for the
    # answer.
    left = int((window - overhead) * _LEFT)
    return max(window - beside, left, _LEAST_ROOM)


def _count_chunk_tokens(summariser_window: int, state: int, again: int) -> int:
    """The new tokens that a call may read, beside its answer and `again` tokens of each call."""
    repair = REPAIR_TOKENS + state // 4
    call = summariser_window - count_output_tokens(state) - again - repair
    # A tenth is left for tokenizers that count more than ours.
    return max(call * 9 // 10, _LEAST_CHUNK)


def find_request_room(window: int, wanted: int, beside: int) -> int:
    """Tokens that a request may have, so that its answer has room in the window too.

    Args:
        window: the model's window.
        wanted: what is asked for the answer; it has an eighth of the window in any case.
        beside: what goes along and is no message. Where it leaves little, the chat gets most of it.
    """
    left = max(window - beside, 0)
    answer = max(min(wanted, left // 2), min(window // 8, left // 3))
    return window - answer


LEAST_FACTOR, MOST_FACTOR = 1.0, 3.0
"""The range of what a provider may count for one of our tokens."""
_LEAST_COUNT = 0.9  # of our own count


def find_usage_factor(prompt_tokens: int, counted: int) -> float | None:
    """The tokens that a provider counts for one of ours; None where a count cannot mean that.

    A count far below ours is that of a `usage` without cached tokens, and one far above ours counts
    something else. With a tokenizer that counts a little less, requests fit anyway.

    Args:
        prompt_tokens: the provider's count for a request.
        counted: our count of the very same request.
    """
    factor = prompt_tokens / max(counted, 1)
    return max(factor, LEAST_FACTOR) if _LEAST_COUNT <= factor <= MOST_FACTOR else None


LEAST_WINDOW, MOST_WINDOW = 2048, 100_000_000
_SHOWN = 0.75  # of our count of a request: a server that has read less has cut it


def find_shown_window(read: int, counted: int) -> int | None:
    """The window of a model whose server has cut a request; None where it has cut nothing.

    Servers have powers of two by default, and cut whole messages: so it is the next one.

    Args:
        read: the tokens of the request that the server has read, by its own count.
        counted: our count of the very same request.
    """
    if read >= counted * _SHOWN:
        return None
    return max(1 << (read - 1).bit_length(), LEAST_WINDOW)


def find_plausible_window(told: Sequence[int]) -> int | None:
    """The first size that a window can have; None when there is none.

    The filter sends them in the order of trust: what the request itself sets, what the model's
    settings say, and what its provider says. A size of nothing, or of a few hundred tokens, is a
    setting that nobody made.
    """
    return next((size for size in told if LEAST_WINDOW <= size <= MOST_WINDOW), None)
