"""Random paths, policies and checkpoints for tests of planning, and what a plan reads and publishes."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from hypothesis import strategies as st

from service.planning.plan import Checkpoint, Chunk, PathMessage, Plan, Position, find_turn_starts
from service.planning.policy import Policy

Sizes = tuple[str, int, tuple[int, ...]]
"""Of a message: its role, its tokens, those of its steps."""
Situation = tuple[list[PathMessage], list[Checkpoint], Policy]


def path_of(messages: Sequence[Sizes], branch: str = "") -> list[PathMessage]:
    """The messages of a path; an id is made of all down to it, and of the name of the branch."""
    path: list[PathMessage] = []
    above = branch
    for role, cost, steps in messages:
        above = blake2b(f"{above} {role} {cost} {steps}".encode(), digest_size=16).hexdigest()
        path.append(PathMessage(above, role, cost, steps))
    return path


@st.composite
def messages(draw: st.DrawFn, largest: int = 400) -> list[Sizes]:
    """Turns: user messages (sometimes several), then answers of some steps, sometimes a failed one."""
    chat: list[Sizes] = []
    sizes = st.integers(1, 60) | st.integers(1, largest)
    for _ in range(draw(st.integers(0, 14))):
        for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
            size = draw(sizes)
            chat.append(("user", size, (size,)))
        match draw(st.sampled_from(["answer", "answer", "answer", "failed", "none"])):
            case "answer":
                steps = tuple(draw(st.lists(sizes, min_size=1, max_size=5)))
                chat.append(("assistant", sum(steps), steps))
            case "failed":
                chat.append(("assistant", 0, ()))
    return chat


PATHS = messages().map(path_of)
POLICIES = st.builds(
    Policy,
    window_tokens=st.just(2000),
    apply_at=st.just(1500),
    prepare_at=st.integers(1, 400),
    keep_tokens=st.integers(20, 400),
    keep_messages=st.sampled_from([2, 5, 10]),
    step_tokens=st.integers(1, 200),
    request_tokens=st.integers(40, 1000),
    code_tokens=st.integers(1, 200),
    state_tokens=st.integers(1, 50),
    summary_tokens=st.integers(2, 110),
    entry_tokens=st.integers(1, 20),
    chunk_tokens=st.integers(50, 500),
)


def carry_out(path: Sequence[PathMessage], policy: Policy, made: Plan) -> list[Checkpoint]:
    """The checkpoints that the calls of a plan publish, each with a summary as large as it may be."""
    identity = made.reuse.id if made.reuse else 0
    covers = [chunk.covers for chunk in made.chunks if chunk.covers is not None]
    return [checkpoint_of(path, policy, identity + n, covered) for n, covered in enumerate(covers, 1)]


def checkpoint_of(path: Sequence[PathMessage], policy: Policy, identity: int, covers: int) -> Checkpoint:
    last = path[covers - 1]
    cost = sum(message.tokens for message in path[:covers])
    return Checkpoint(identity, last.id, covers, cost, policy.summary_room(cost, policy.keep_tokens))


def reads_of(chunks: Sequence[Chunk]) -> list[tuple[Position, int]]:
    return [(read.position, read.pieces) for chunk in chunks for read in chunk.reads]


def expected_reads(path: Sequence[PathMessage], start: int, end: int, policy: Policy) -> list[tuple[Position, int]]:
    """Every step between two path messages; one that leaves no room in a call in as few pieces as do."""
    reads, room = [], policy.chunk_tokens - min(256, policy.chunk_tokens // 4)
    for message in range(start, end):
        for step, cost in enumerate(path[message].step_tokens):
            pieces = max(-(-cost // room), 1)
            reads += [(Position(message, step, piece), pieces) for piece in range(pieces)]
    return reads


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A path, a policy, and checkpoints of earlier rounds, of other branches, and of nothing at all."""
    path, policy = draw(PATHS), draw(POLICIES)
    checkpoints: list[Checkpoint] = []
    starts = find_turn_starts(path)
    for identity, covers in enumerate(draw(st.lists(st.sampled_from(starts), max_size=3)) if starts else [], 1):
        if covers:
            found = checkpoint_of(path, policy, identity, covers)
            strange = {"until": "0" * 32} if draw(st.booleans()) and draw(st.booleans()) else {}
            checkpoints.append(replace(found, **strange))  # type: ignore[arg-type]
    checkpoints += [Checkpoint(99, "1" * 32, 2, 5, 1)] * draw(st.integers(0, 1))
    return path, checkpoints, policy
