"""Decides what to cover: which checkpoint to grow from, which groups to read in which calls, which tail to keep.

Pure. In: the path with token counts, the checkpoints on it, the policy. Out: a `Plan`. One pass
over the path with prefix sums, so planning is O(n); the same input always gives the same plan.

The unit that a boundary may not split is the turn, because the model is then sent the tail from a
user message on. The unit that a call may not split is the step. A turn larger than one call is read
over several calls, and a step larger than one call in pieces; the boundary moves when the turn is
complete. A boundary after little would not be worth a summary: there, reading goes on into the next
turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from service.policy import Policy


@dataclass(frozen=True, slots=True)
class PathMessage:
    """One message of the path.

    `tokens` is what the model is sent for it, `step_tokens` what a summariser reads for each of its
    steps (none for an empty answer).
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
class PartialTurn:
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

    `covers` is the number of path messages covered after it. Inside a long turn it is None, and
    `then` is what the next call begins with.
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
        partial: the part-read turn that the first chunk goes on from.
        chunks: the calls to make, in order, each published on its own.
        tail_start: index of the first path message that stays verbatim.
        complete: False when `max_chunks` left something for the next round.
    """

    reuse: Checkpoint | None
    partial: PartialTurn | None
    chunks: tuple[Chunk, ...]
    tail_start: int
    complete: bool = True
    reason: str = ""


def plan(
    path: Sequence[PathMessage],
    checkpoints: Sequence[Checkpoint],
    policy: Policy,
    *,
    partial: PartialTurn | None = None,
) -> Plan:
    """What to cover of `path` (root to leaf), given the checkpoints that exist.

    Args:
        path: the whole branch, root first.
        checkpoints: any checkpoints of the chat; those that are not on the path are ignored.
        policy: the budgets.
        partial: what has been read of a long turn already; ignored when it does not fit the path any
            more.
    """
    sums = [0, *accumulate(message.tokens for message in path)]
    turns = turn_starts(path)
    reuse = deepest(path, checkpoints)
    start = reuse.messages if reuse else 0
    tail = max(_tail_start(turns, sums, policy), start)
    size = policy.overhead + (reuse.tokens if reuse else 0) + sums[-1] - sums[start]
    coverable = sums[tail] - sums[start]
    if size < policy.prepare_at:
        return Plan(
            reuse,
            None,
            (),
            tail,
            reason=f"{size} tokens are below prepare_at ({policy.prepare_at})",
        )
    if coverable < policy.step_tokens:
        return Plan(
            reuse,
            None,
            (),
            tail,
            reason=f"only {coverable} tokens to cover, a step is {policy.step_tokens}",
        )
    partial = partial if partial and _continues(partial, path, reuse, start, tail, policy) else None
    begin = partial.position if partial else Position(start)
    chunks = list(_chunks(path, sums, turns, start, begin, tail, policy))
    return Plan(
        reuse,
        partial,
        tuple(chunks[: policy.max_chunks]),
        tail,
        complete=len(chunks) <= policy.max_chunks,
    )


def plan_by_code(
    path: Sequence[PathMessage],
    checkpoints: Sequence[Checkpoint],
    policy: Policy,
    *,
    partial: PartialTurn | None = None,
) -> Plan:
    """The same where no summariser is asked: what the next request needs, or else what fits beside tail and summary."""
    now = plan(path, checkpoints, policy.at_once, partial=partial)
    return now if now.chunks else plan(path, checkpoints, policy.by_code, partial=partial)


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


def turn_starts(path: Sequence[PathMessage]) -> list[int]:
    """Indexes of the first message of each turn. User messages in a row (an answer failed) open one turn together."""
    return [
        index
        for index, message in enumerate(path)
        if index == 0 or (message.role == "user" and path[index - 1].role != "user")
    ]


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
    partial: PartialTurn,
    path: Sequence[PathMessage],
    reuse: Checkpoint | None,
    start: int,
    tail: int,
    policy: Policy,
) -> bool:
    at = partial.position
    return (
        partial.base == (reuse.id if reuse else None)
        and start <= at.message < tail
        and path[at.message].digest == partial.digest
        and at.step < len(path[at.message].step_tokens)
        and _pieces(path[at.message].step_tokens[at.step], policy) == partial.pieces
        and at.piece < partial.pieces
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
        yield Chunk(
            tuple(some), end if last else None, None if last else packed[part][0], part, len(packed)
        )
