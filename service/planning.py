"""Decides what to cover: which checkpoint to grow from, which groups to read in which calls, which tail to keep.

Pure. In: the path with token counts, the checkpoints on it, the policy. Out: a `Plan`. One pass over the path with
prefix sums, so planning is O(n); the same input always gives the same plan.

The unit that a boundary may not split is the turn, because the model is then sent the tail from a user message on.
The unit that a call may not split is the step. A turn larger than one call is read over several calls, and a step
larger than one call in pieces; the boundary moves when the turn is complete. A boundary after little would not be
worth a summary: there, reading goes on into the next turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil, sqrt

DEFAULT_WINDOW = 131_072
APPLY_AT = 0.763
"""Share of a window above which a request is served with a summary; 100,000 tokens of the default window."""
APPLY_PARTS = 4096
"""The share is counted in so many parts: PostgreSQL and Python then divide whole numbers, and agree."""
KEEP_MESSAGES = 10
SUMMARY_SHARE = 0.2
"""The summary's share of a window of 16,384 tokens; see `Policy.sized` for others."""
PROMPT_TOKENS = 700
"""What the wording around the text that a call reads may cost (`summarising.prompt`; a test holds it below)."""
REPAIR_TOKENS = 160
"""What a second call may cost more than the first: it names the reasons why the first reply was rejected."""
_LEAST_SUMMARY = 128  # tokens, of the narrative
_MOST_SUMMARY = 32_768  # tokens: more is read badly, and no window of today needs it
_LEAST_ROOM = 512  # tokens: beside tools that leave less, no chat fits
_LEFT = 0.75  # of what tools leave is as good as a window without tools
_CODE_STEPS = 4  # while requests are too large, code covers this part of what tail and summary leave
_TOOLS = 0.7  # of the filter's estimate for tools is what they cost at least
_SHARE_WINDOW = 16_384  # tokens: the window in which the summary has its share


def parts_of(share: float) -> int:
    """A share of a window in whole `APPLY_PARTS`."""
    return round(share * APPLY_PARTS)


def apply_at(window: int, share: float = APPLY_AT) -> int:
    """Tokens above which a request for a model with this window is served with a summary."""
    return window * parts_of(share) // APPLY_PARTS


def output_tokens(summary_tokens: int) -> int:
    """How many tokens a summariser may write when it is asked for a narrative of `summary_tokens`, and for proposals.

    Models overshoot, and an answer that meets the limit is cut off and therefore rejected: a tight limit would waste
    whole runs.
    """
    return summary_tokens * 2 + 256


@dataclass(frozen=True, slots=True)
class Policy:
    """The token budgets in force for one chat. `Policy.sized` derives them from its model's window.

    Attributes:
        window_tokens: the model's window.
        apply_at: a request estimated above this needs a summary.
        prepare_at: background work starts here.
        keep_tokens: bound on the verbatim tail, unless the newest turn alone is larger.
        keep_messages: wanted length of the tail; halved down to 2 until the tail fits into `keep_tokens`.
        step_tokens: the least number of newly covered tokens that is worth a summariser's call.
        code_tokens: the least that is worth a summary by code, while a request is above `apply_at`: it costs no call.
        summary_tokens: bound on the narrative.
        record_tokens: bound on what code keeps beside it: pins, talk and ledger together.
        entry_tokens: how much of the pins a summariser is shown.
        chunk_tokens: how much of the conversation one call may read.
        max_chunks: calls in one round; what is left waits for the next round.
        overhead: tokens of each request that are no messages (system prompt, tool specifications).
    """

    window_tokens: int
    apply_at: int
    prepare_at: int
    keep_tokens: int
    keep_messages: int
    step_tokens: int
    code_tokens: int
    summary_tokens: int
    record_tokens: int
    entry_tokens: int
    chunk_tokens: int
    max_chunks: int
    overhead: int = 0

    @property
    def by_code(self) -> "Policy":
        """The same budgets where code alone writes: what fits beside tail and summary is worth one."""
        return replace(self, step_tokens=min(self.step_tokens, _CODE_STEPS * self.code_tokens))

    @property
    def at_once(self) -> "Policy":
        """For what the next request needs now, from code: it is above `apply_at`, and little is worth a summary."""
        return replace(self, prepare_at=self.apply_at + 1, step_tokens=self.code_tokens)

    @classmethod
    def sized(
        cls,
        window: int = DEFAULT_WINDOW,
        summariser_window: int = 32_768,
        max_chunks: int = 8,
        *,
        overhead: int = 0,
        apply_share: float = APPLY_AT,
        keep_messages: int = KEEP_MESSAGES,
        summary_share: float = SUMMARY_SHARE,
    ) -> "Policy":
        """Budgets in proportion to the room that the window has for messages; at 131072 tokens those of the design.

        The room is the window whose `apply_at` is what `overhead` leaves of this one's. A summary
        takes `summary_share` of a room of 16,384 tokens, and of others in proportion to the root of
        the room: a chat in a small window has as much to be remembered as one in a large. It never
        takes more than five eighths of what the tail leaves, because the rest is what the next
        summary covers.

        A quarter of the summary is the narrative, which each call reads again and writes anew, and
        whose length a model can hold. All else is the record, which costs no call anything.

        A call is worth a step of four times what it reads again. In a small window that is more than
        what fits beside the tail and the summary: there, summaries by code serve until it is reached.

        Args:
            window: the model's window.
            summariser_window: the summariser's. One with a small window is asked for less.
            max_chunks: calls in one round.
            overhead: tokens of each request that are no messages.
            apply_share: share of the window above which a summary is served.
            keep_messages: wanted length of the tail.
            summary_share: see above.
        """
        beside = ceil(overhead * APPLY_PARTS / parts_of(apply_share))
        # Where tools take nearly all, what is left of the window has to do, with a part of it for the answer.
        left = int(max(window - overhead, 0) * _LEFT)
        room = max(window - beside, left, _LEAST_ROOM)
        threshold = apply_at(room, apply_share)
        keep = min(room // 4, threshold // 3)
        wanted = int(summary_share * sqrt(room * _SHARE_WINDOW))
        whole = min(wanted, (threshold - keep) * 5 // 8, _MOST_SUMMARY)
        narrative = max(min(2000, whole // 4, summariser_window // 12), _LEAST_SUMMARY)
        narrative = min(narrative, whole // 2)
        entries = min(1000, room // 50, summariser_window // 16)
        again = narrative + entries + PROMPT_TOKENS
        # What a call reads again is to be a small part of what it reads new.
        step = max(room // 5, 4 * again)
        fitting = threshold - keep - whole
        call = summariser_window - output_tokens(narrative) - again - REPAIR_TOKENS
        return cls(
            window_tokens=window,
            apply_at=min(max(apply_at(window, apply_share), overhead + threshold), window),
            prepare_at=min(window // 2, apply_at(window, apply_share) * 2 // 3),
            keep_tokens=keep,
            keep_messages=keep_messages,
            step_tokens=step,
            code_tokens=max(fitting // _CODE_STEPS, 1),
            summary_tokens=narrative,
            record_tokens=whole - narrative,
            entry_tokens=entries,
            chunk_tokens=max(call * 9 // 10, 512),  # a tenth for tokenizers that count more than ours
            max_chunks=max_chunks,
            overhead=overhead,
        )


@dataclass(frozen=True, slots=True)
class PathMessage:
    """One message of the path.

    `tokens` is what the model is sent for it, `step_tokens` what a summariser reads for each of its steps (none for
    an empty answer).
    """

    id: str
    role: str
    digest: str
    tokens: int
    step_tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A stored summary as planning and serving see it.

    Attributes:
        id: rises with every checkpoint that is published.
        until: id of the last covered message, the boundary.
        digest: the digest at the boundary.
        messages: how many path messages it covers.
        covered_tokens: what those cost the model.
        tokens: what the summary message costs.
    """

    id: int
    until: str
    digest: str
    messages: int
    covered_tokens: int
    tokens: int


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two reads: the next one is `piece` of step `step` of path message `message` (0-based)."""

    message: int
    step: int = 0
    piece: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """How far a turn too long for one call has been read on top of checkpoint `base`; `digest` is the message's."""

    base: int | None
    digest: str
    position: Position
    pieces: int


@dataclass(frozen=True, slots=True)
class Read:
    """One step, or piece `piece` of `pieces` of it, that a call reads."""

    position: Position
    pieces: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one call reads.

    `covers` is the number of path messages covered after it. Inside a long turn it is None, and `then` is what the
    next call begins with.
    """

    reads: tuple[Read, ...]
    covers: int | None
    then: Read | None = None
    part: int = 1
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do. Without chunks there is nothing to do, and `reason` says why.

    Attributes:
        reuse: the deepest checkpoint on the path, which the first chunk grows from.
        draft: the part-read turn that the first chunk goes on from.
        chunks: the calls to make, in order, each published on its own.
        tail_start: index of the first path message that stays verbatim.
        complete: False when `max_chunks` left something for the next round.
    """

    reuse: Checkpoint | None
    draft: Draft | None
    chunks: tuple[Chunk, ...]
    tail_start: int
    complete: bool = True
    reason: str = ""


def plan(
    path: Sequence[PathMessage],
    checkpoints: Sequence[Checkpoint],
    policy: Policy,
    *,
    draft: Draft | None = None,
) -> Plan:
    """What to cover of `path` (root to leaf), given the checkpoints that exist.

    Args:
        path: the whole branch, root first.
        checkpoints: any checkpoints of the chat; those that are not on the path are ignored.
        policy: the budgets.
        draft: what has been read of a long turn already; ignored when it does not fit the path any more.
    """
    sums = [0, *accumulate(message.tokens for message in path)]
    turns = turn_starts(path)
    reuse = deepest(path, checkpoints)
    start = reuse.messages if reuse else 0
    tail = max(_tail_start(turns, sums, policy), start)
    size = policy.overhead + (reuse.tokens if reuse else 0) + sums[-1] - sums[start]
    coverable = sums[tail] - sums[start]
    if size < policy.prepare_at:
        return Plan(reuse, None, (), tail, reason=f"{size} tokens are below prepare_at ({policy.prepare_at})")
    if coverable < policy.step_tokens:
        return Plan(reuse, None, (), tail, reason=f"only {coverable} tokens to cover, a step is {policy.step_tokens}")
    draft = draft if draft and _continues(draft, path, reuse, start, tail, policy) else None
    begin = draft.position if draft else Position(start)
    chunks = list(_chunks(path, sums, turns, start, begin, tail, policy))
    return Plan(reuse, draft, tuple(chunks[: policy.max_chunks]), tail, complete=len(chunks) <= policy.max_chunks)


def plan_by_code(
    path: Sequence[PathMessage],
    checkpoints: Sequence[Checkpoint],
    policy: Policy,
    *,
    draft: Draft | None = None,
) -> Plan:
    """The same where no summariser is asked: what the next request needs, or else what fits beside tail and summary."""
    now = plan(path, checkpoints, policy.at_once, draft=draft)
    return now if now.chunks else plan(path, checkpoints, policy.by_code, draft=draft)


def deepest(path: Sequence[PathMessage], checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one that covers most of the path; those that are not on it are ignored."""
    on_path = [
        checkpoint
        for checkpoint in checkpoints
        if 0 < checkpoint.messages <= len(path)
        and path[checkpoint.messages - 1].id == checkpoint.until
        and path[checkpoint.messages - 1].digest == checkpoint.digest
    ]
    return max(on_path, key=lambda checkpoint: (checkpoint.messages, checkpoint.id), default=None)


def is_crowded(window: int, overhead: int) -> bool:
    """Whether tools and system prompts leave less than half of what a request may have for the chat itself."""
    return overhead * 2 > apply_at(window)


def crowding(window: int, overhead: int) -> str:
    """What operators are told of a model that `is_crowded`."""
    taken, whole = overhead / 1000, window / 1000
    return (
        f"tools and system prompts take {taken:.1f}k of its {whole:.1f}k window, so little of a chat fits into a"
        " request; fewer tools for this model, or a larger window, mend that"
    )


def turn_starts(path: Sequence[PathMessage]) -> list[int]:
    """Indexes of the first message of each turn. User messages in a row (an answer failed) open one turn together."""
    return [
        index
        for index, message in enumerate(path)
        if index == 0 or (message.role == "user" and path[index - 1].role != "user")
    ]


def measured_overhead(prompt_tokens: int, estimated: int, window: int, tools: int = 0) -> int | None:
    """What a provider counted beyond our estimate of the same request: system prompts, tool specifications, tokenizer.

    None when that is not known. A count below ours comes from a tokenizer that counts less, or from a `usage` without
    cached tokens, and one that leaves no room for the tools, which were there, hides them: neither is a constant that
    could be taken off a request of another size. Bounded by half of the window, or by what the filter has seen of tools
    if that is more, so that one odd `usage` harms little.

    Args:
        prompt_tokens: the provider's count for the last call of the turn.
        estimated: our count of the messages in that call.
        window: the model's window.
        tools: the filter's estimate for the tools in it.
    """
    counted = prompt_tokens - estimated
    if counted < max(tools * _TOOLS, 0):
        return None
    return int(min(counted, max(window // 2, tools)))


def _tail_start(turns: Sequence[int], sums: Sequence[int], policy: Policy) -> int:
    """Start of the turn from which on everything is kept.

    As many messages as wanted, fewer under pressure, and always the whole newest turn.
    """
    length = len(sums) - 1
    keep = policy.keep_messages
    while keep >= 2:
        start = max((turn for turn in turns if turn <= length - keep), default=0)
        if sums[-1] - sums[start] <= policy.keep_tokens:
            return start
        keep //= 2
    return turns[-1] if turns else 0


def _continues(
    draft: Draft, path: Sequence[PathMessage], reuse: Checkpoint | None, start: int, tail: int, policy: Policy
) -> bool:
    at = draft.position
    return (
        draft.base == (reuse.id if reuse else None)
        and start <= at.message < tail
        and path[at.message].digest == draft.digest
        and at.step < len(path[at.message].step_tokens)
        and _pieces(path[at.message].step_tokens[at.step], policy) == draft.pieces
        and at.piece < draft.pieces
    )


def _pieces(tokens: int, policy: Policy) -> int:
    return max(-(-tokens // policy.chunk_tokens), 1)


def _chunks(
    path: Sequence[PathMessage],
    sums: Sequence[int],
    turns: Sequence[int],
    covered: int,
    start: Position,
    tail: int,
    policy: Policy,
) -> Iterator[Chunk]:
    """Packs whole turns into calls of about equal size; what is larger than a call is read over several.

    `covered` messages have a checkpoint; reading goes on from `start`.
    """
    groups = _groups(path, turns, start, tail, policy)
    for end, reads in _worth_it(groups, sums, covered, policy):
        if sum(read.tokens for read in reads) > policy.chunk_tokens:
            yield from _long_turn(reads, end, policy)
        else:
            yield Chunk(tuple(reads), end)


def _worth_it(
    groups: Sequence[tuple[int, list[Read]]], sums: Sequence[int], covered: int, policy: Policy
) -> list[tuple[int, list[Read]]]:
    """Joins turns until each group covers enough for a checkpoint.

    A summary of little is hardly smaller than what it stands for. So a group that covers less than
    half a call takes the next turn along, however long that one is, and what is left at the end
    goes to the group before it.
    """
    total = sum(read.tokens for _, reads in groups for read in reads)
    calls = max(-(-total // policy.chunk_tokens), 1)
    target = -(-total // calls)
    least = min(policy.step_tokens, policy.chunk_tokens // 2)
    joined: list[tuple[int, list[Read]]] = []
    pending: list[Read] = []
    size, begin, until = 0, covered, covered
    for end, reads in groups:
        cost = sum(read.tokens for read in reads)
        full = size >= target or size + cost > policy.chunk_tokens
        if pending and full and sums[until] - sums[begin] >= least:
            joined.append((until, pending))
            pending, size, begin = [], 0, until
        pending = pending + reads
        size += cost
        until = end
    if not pending:
        return joined
    if joined and sums[until] - sums[begin] < least:
        _, before = joined.pop()
        pending = before + pending
    return [*joined, (until, pending)]


def _groups(
    path: Sequence[PathMessage], turns: Sequence[int], start: Position, tail: int, policy: Policy
) -> list[tuple[int, list[Read]]]:
    """The turns to cover as (index after the turn, reads)."""
    ends = [turn for turn in turns if start.message < turn < tail] + [tail]
    groups, begin = [], start.message
    for end in ends:
        reads = [
            Read(Position(message, step, piece), pieces, -(-tokens // pieces))
            for message in range(begin, end)
            for step, tokens in enumerate(path[message].step_tokens)
            for pieces in (_pieces(tokens, policy),)
            for piece in range(pieces)
            if Position(message, step, piece) >= start
        ]
        groups.append((end, reads))
        begin = end
    return groups


def _long_turn(reads: Sequence[Read], end: int, policy: Policy) -> Iterator[Chunk]:
    packed: list[list[Read]] = [[]]
    size = 0
    for read in reads:
        if packed[-1] and size + read.tokens > policy.chunk_tokens:
            packed.append([])
            size = 0
        packed[-1].append(read)
        size += read.tokens
    for part, some in enumerate(packed, 1):
        last = part == len(packed)
        yield Chunk(tuple(some), end if last else None, None if last else packed[part][0], part, len(packed))
