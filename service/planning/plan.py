"""Decides what to cover: from which checkpoint, in which calls, and which tail to keep. Pure.

In: the path with token counts, the checkpoints on it, the policy. Out: a `Plan`. One pass
over the path with prefix sums, so planning is O(n); the same input always gives the same plan.

The unit that a boundary may not split is the turn, because the model is then sent the tail from a
user message on. The unit that a call may not split is the step. A turn larger than one call is read
over several calls, and a step larger than one call in pieces; the boundary moves when the turn is
complete. A boundary after little would not be worth a summary: there, reading goes on into the next
turn. Nor is a call worth it that would read a few dozen tokens.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median_low
from typing import NamedTuple

from service.planning.policy import CALL_WORTH, PROMPT_TOKENS, Policy

_LEAST_READ = 256
"""Tokens. A call that would read less waits; a part of a long turn has at least half of it."""
_QUESTIONS = 3  # tell how long the next one may be; one of them may be a long paste


@dataclass(frozen=True, slots=True)
class PathMessage:
    """One message of the path.

    `tokens` is what the model is sent for it, `step_tokens` what a summariser reads for each of its
    steps (none for an empty answer).
    """

    id: str
    role: str
    tokens: int
    step_tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A stored summary as planning and serving see it.

    Attributes:
        id: rises along a line.
        until: id of the last covered message, the boundary.
        messages: how many path messages it covers.
        covered_tokens: what those cost the model.
        tokens: what the summary message costs.
        parent: the one before it in its line; 0 for none, and where only serving asks.
        window: the window of the model that it was written for; 0 where only serving asks.
    """

    id: int
    until: str
    messages: int
    covered_tokens: int
    tokens: int
    parent: int = 0
    window: int = 0


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two reads: the next begins with this piece of a step of a path message.

    All three count from 0.
    """

    message: int
    step: int = 0
    piece: int = 0


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """A step that a call reads, or the piece at `position` of `pieces` of it.

    `tokens` are those of this piece. `summarise.StepRead` is the same with the step itself.
    """

    position: Position
    pieces: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """The reads of one call; `part` of `parts` of a turn that is too long for one.

    `covers` is the number of path messages covered after it; None inside a long turn.
    """

    reads: tuple[PlannedRead, ...]
    covers: int | None
    part: int = 1
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The chunks to read. Without any there is nothing to do, and `reason` says why.

    Attributes:
        reuse: the deepest checkpoint on the path, which the first chunk grows from.
        chunks: the calls to make, in order; the last one ends a turn.
        tail_start: index of the first path message that stays verbatim.
    """

    reuse: Checkpoint | None
    chunks: tuple[Chunk, ...]
    tail_start: int
    reason: str = ""


def plan(
    path: Sequence[PathMessage],
    checkpoints: Sequence[Checkpoint],
    policy: Policy,
    *,
    by_code: bool = False,
    reach: int = 0,
    is_resumed: bool = False,
) -> Plan:
    """Plans what to cover of `path` (root to leaf), given the checkpoints that exist.

    Args:
        path: the whole branch, root first.
        checkpoints: any checkpoints of the chat; those that are not on the path are ignored.
        policy: the budgets.
        by_code: whether code writes alone, which costs no call.
        reach: so many messages are to be covered now, whatever the request's size and the tail are.
        is_resumed: whether a round goes on that was planned from an earlier checkpoint. The same
            chunks follow then as were planned there, however little is left.
    """
    sums = [0, *accumulate(message.tokens for message in path)]
    turns = find_turn_starts(path)
    reuse = find_deepest(path, checkpoints)
    start = reuse.messages if reuse else 0
    # The tail never reaches back into what is covered, however short it is then.
    tail = max(_find_tail_start(turns, sums, policy), start, reach)
    groups = _group_turns(path, turns, start, tail, policy)

    summary_tokens = reuse.tokens if reuse else 0
    size = policy.overhead + summary_tokens + sums[-1] - sums[start]
    is_urgent = size + _estimate_question(path) > policy.apply_at
    step = policy.step_by_code(is_urgent=is_urgent) if by_code else policy.step_tokens
    situation = _Situation(
        reuse=reuse,
        size=size,
        coverable=sums[tail] - sums[start],
        readable=sum(group.tokens for group in groups),
        is_urgent=is_urgent,
    )
    if is_resumed or reach:
        idle = "" if situation.coverable else "all is covered"
    else:
        idle = _explain_idle(situation, step, policy, by_code=by_code)
    if idle:
        return Plan(reuse, (), tail, reason=idle)
    joined = _merge_small_turns(groups, sums, start, step, policy, may_wait=not by_code)
    return Plan(reuse, tuple(_make_chunks(joined, policy)), tail)


def find_deepest(
    path: Sequence[PathMessage], checkpoints: Sequence[Checkpoint]
) -> Checkpoint | None:
    """The one that covers most of the path; those that are not on it are ignored."""
    on_path = [checkpoint for checkpoint in checkpoints if _is_on(path, checkpoint)]
    # Several versions may have one boundary; the newest counts.
    return max(on_path, key=lambda checkpoint: (checkpoint.messages, checkpoint.id), default=None)


def is_poorer(written_for: int, window: int) -> bool:
    """Whether a summary for the one window lacks what the other has room for; both in tokens.

    `contexts.sql` chooses by the same rule.
    """
    return written_for * 2 < window


def _is_on(path: Sequence[PathMessage], checkpoint: Checkpoint) -> bool:
    if not 0 < checkpoint.messages <= len(path):
        return False
    return path[checkpoint.messages - 1].id == checkpoint.until


def find_turn_starts(path: Sequence[PathMessage]) -> list[int]:
    """Indexes of the first message of each turn.

    User messages in a row (an answer failed) open one turn together.
    """
    return [
        index
        for index, message in enumerate(path)
        if index == 0 or (message.role == "user" and path[index - 1].role != "user")
    ]


def _estimate_question(path: Sequence[PathMessage]) -> int:
    """The tokens that the next question may have: those of the middle one of the last."""
    asked = [message.tokens for message in path if message.role == "user"]
    return median_low(asked[-_QUESTIONS:]) if asked else 0


class _Situation(NamedTuple):
    """The state of a chat, by which a summary is worth its cost or not. All counts are tokens."""

    #: The deepest checkpoint on the path.
    reuse: Checkpoint | None
    #: Those of the next request, without its question.
    size: int
    #: Those between the last boundary and the tail, as the model is sent them.
    coverable: int
    #: The same messages as a summariser reads them.
    readable: int
    #: Whether the next question has no room.
    is_urgent: bool


def _explain_idle(situation: _Situation, step: int, policy: Policy, *, by_code: bool) -> str:
    """Why there is nothing to do; "" when there is."""
    size, coverable = situation.size, situation.coverable
    # Each new summary changes how requests begin. So code writes one after another late: when it is
    # urgent, and then it covers all that there is.
    if by_code and situation.reuse is not None and not situation.is_urgent:
        return f"a request of {size} tokens has room for another question"
    if size < policy.prepare_at:
        return f"{size} tokens are below prepare_at ({policy.prepare_at})"
    least = step if by_code else _find_least_covered(situation.reuse, step)
    if coverable < least:
        return f"only {coverable} tokens to cover, a step is {least}"
    least_read = _find_least_read(policy)
    if not by_code and situation.readable < least_read:
        return f"only {situation.readable} tokens to read, a call reads {least_read} at least"
    return ""


def _find_least_covered(reuse: Checkpoint | None, step: int) -> int:
    """The least number of newly covered tokens for which a model is asked."""
    if reuse is None:  # the first call has nothing to read again
        return _divide_up(step, 2)
    # A call reads the last summary again, which may be much shorter than it might be.
    return min(step, CALL_WORTH * (reuse.tokens + PROMPT_TOKENS))


def _find_least_read(policy: Policy) -> int:
    """The least tokens that a call reads; a part of what it may read, however little that is."""
    return min(_LEAST_READ, policy.chunk_tokens // 4)


def _find_tail_start(turns: Sequence[int], sums: Sequence[int], policy: Policy) -> int:
    """Start of the turn from which on everything is kept.

    As many messages as wanted, fewer under pressure; but the two newest turns, if they are not more
    than half of a request, and always the newest.
    """
    length = len(sums) - 1
    keep = policy.keep_messages
    while keep >= 2:
        start = max((turn for turn in turns if turn <= length - keep), default=0)
        if sums[-1] - sums[start] <= policy.keep_tokens:
            return start
        keep //= 2
    if len(turns) > 1 and sums[-1] - sums[turns[-2]] <= policy.request_tokens // 2:
        return turns[-2]
    return turns[-1] if turns else 0


def _divide_up(number: int, by: int) -> int:
    """The quotient rounded up, in whole numbers: no float is exact at every size."""
    return -(-number // by)


class _Group(NamedTuple):
    """Whole turns that are read together: what is read of them, up to the path message `end`."""

    end: int
    reads: list[PlannedRead]
    tokens: int

    def with_next(self, later: "_Group") -> "_Group":
        """Both together; `later` begins where this one ends."""
        return _Group(later.end, self.reads + later.reads, self.tokens + later.tokens)


def _group_turns(
    path: Sequence[PathMessage], turns: Sequence[int], start: int, tail: int, policy: Policy
) -> list[_Group]:
    """The turns to cover, from the path message `start` on, each as a group of its own."""
    ends = [turn for turn in turns if start < turn < tail] + [tail]
    groups: list[_Group] = []
    begin = start
    for end in ends:
        reads = list(_plan_reads(path, range(begin, end), policy))
        groups.append(_Group(end, reads, _sum_tokens(reads)))
        begin = end
    return groups


def _plan_reads(
    path: Sequence[PathMessage], messages: range, policy: Policy
) -> Iterator[PlannedRead]:
    """All steps of these messages, in pieces of about equal size where one is too long.

    A piece leaves room in its call for a short step beside it, which else had a call of its own.
    """
    room = policy.chunk_tokens - _find_least_read(policy)
    for message in messages:
        for step, tokens in enumerate(path[message].step_tokens):
            pieces = max(_divide_up(tokens, room), 1)
            size = _divide_up(tokens, pieces)
            for piece in range(pieces):
                yield PlannedRead(Position(message, step, piece), pieces, size)


def _merge_small_turns(
    groups: Sequence[_Group],
    sums: Sequence[int],
    covered: int,
    step: int,
    policy: Policy,
    *,
    may_wait: bool,
) -> list[_Group]:
    """Joins turns until each group is worth a checkpoint and a call; `covered` messages have one.

    What is left at the end goes to the group before it, or waits if it may: each call reads the
    last summary again, so full ones cost least.
    """
    joined, rest = _fill_calls(groups, sums, covered, step, policy)
    if not rest.reads:
        return joined
    if not joined:
        return [rest]
    left = sums[rest.end] - sums[joined[-1].end]
    if may_wait and left < step and rest.tokens < policy.chunk_tokens * 3 // 4:
        return joined
    if _is_worth_it(rest, left, step, policy):
        return [*joined, rest]
    return [*joined[:-1], joined[-1].with_next(rest)]


def _fill_calls(
    groups: Sequence[_Group], sums: Sequence[int], covered: int, step: int, policy: Policy
) -> tuple[list[_Group], _Group]:
    """Groups of turns that fill a call each, and what is left after them.

    A summary of little is hardly smaller than what it stands for. So a group that covers less than
    half a call takes the next turn along, however long that one is.
    """
    joined: list[_Group] = []
    pending, begin = _Group(covered, [], 0), covered
    for group in groups:
        full = pending.tokens + group.tokens > policy.chunk_tokens
        if full and _is_worth_it(pending, sums[pending.end] - sums[begin], step, policy):
            joined.append(pending)
            pending, begin = _Group(pending.end, [], 0), pending.end
        pending = pending.with_next(group)
    return joined, pending


def _is_worth_it(group: _Group, covered: int, step: int, policy: Policy) -> bool:
    """Whether a group that covers so many tokens is worth a checkpoint and a call."""
    return covered >= min(step, policy.chunk_tokens // 2) and group.tokens >= _find_least_read(
        policy
    )


def _make_chunks(groups: Sequence[_Group], policy: Policy) -> Iterator[Chunk]:
    """The calls that read the groups: one each, unless its turn is too long for that."""
    for group in groups:
        if group.tokens <= policy.chunk_tokens:
            yield Chunk(tuple(group.reads), group.end)
            continue
        calls = _pack_evenly(group.reads, policy.chunk_tokens, _find_least_read(policy))
        parts = len(calls)
        for part, reads in enumerate(calls, 1):
            # Only the last call moves the boundary: a turn is covered as a whole.
            yield Chunk(tuple(reads), group.end if part == parts else None, part, parts)


def _pack_evenly(reads: Sequence[PlannedRead], room: int, least: int) -> list[list[PlannedRead]]:
    """The reads in order, in as few calls of `room` tokens as hold them, of about equal size.

    No read may be longer than `room - least`; then no call has less than half of `least`.
    """
    fewest = len(_fill_in_order(reads, room))
    # Above the longest read by `least`, so that a short one never stands between two alone.
    smallest = min(max(read.tokens for read in reads) + least, room)
    even = smallest + bisect_left(
        range(smallest, room), True, key=lambda size: len(_fill_in_order(reads, size)) <= fewest
    )
    *calls, before, last = _fill_in_order(reads, even)
    if _sum_tokens(last) < least:
        before, last = _halve([*before, *last])
    return [*calls, before, last]


def _fill_in_order(reads: Sequence[PlannedRead], room: int) -> list[list[PlannedRead]]:
    """The reads in order, as many in a call as fit into `room` tokens."""
    calls: list[list[PlannedRead]] = [[]]
    size = 0
    for read in reads:
        if calls[-1] and size + read.tokens > room:
            calls.append([])
            size = 0
        calls[-1].append(read)
        size += read.tokens
    return calls


def _halve(reads: Sequence[PlannedRead]) -> tuple[list[PlannedRead], list[PlannedRead]]:
    """Two calls of sizes as near to each other as they can be."""
    sums = list(accumulate(read.tokens for read in reads))
    at = min(range(1, len(reads)), key=lambda place: abs(2 * sums[place - 1] - sums[-1]))
    return list(reads[:at]), list(reads[at:])


def _sum_tokens(reads: Sequence[PlannedRead]) -> int:
    return sum(read.tokens for read in reads)
