"""Planning: what is covered, in which calls, and what stays verbatim, over random paths, policies and checkpoints."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import overload

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.planning import (
    PROMPT_TOKENS,
    REPAIR_TOKENS,
    Checkpoint,
    Chunk,
    Draft,
    PathMessage,
    Plan,
    Policy,
    Position,
    measured_overhead,
    output_tokens,
    plan,
    turn_starts,
)
from service.transcript import ROOT, digest

# ---- random chats


def path_of(messages: Sequence[tuple[str, int, tuple[int, ...]]], branch: str = "") -> list[PathMessage]:
    """A path of (role, tokens, tokens of its steps)."""
    path: list[PathMessage] = []
    rolling = ROOT
    for index, (role, cost, steps) in enumerate(messages):
        rolling = digest(rolling, f"m{index}", f"{branch}{role}{cost}{steps}")
        path.append(PathMessage(f"m{index}", role, rolling, cost, steps))
    return path


@st.composite
def messages(draw: st.DrawFn, largest: int = 400) -> list[tuple[str, int, tuple[int, ...]]]:
    """Turns: user messages (sometimes several), then answers of some steps, sometimes a failed one."""
    chat: list[tuple[str, int, tuple[int, ...]]] = []
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
    summary_tokens=st.integers(1, 50),
    pins_tokens=st.integers(1, 30),
    entry_tokens=st.integers(1, 20),
    ledger_tokens=st.integers(1, 30),
    chunk_tokens=st.integers(50, 500),
    max_chunks=st.integers(1, 4),
)


def carry_out(path: Sequence[PathMessage], policy: Policy, made: Plan, upto: int | None = None) -> list[Checkpoint]:
    """The checkpoints that the first `upto` calls of a plan publish, each with a summary as large as it may be."""
    identity = made.reuse.id if made.reuse else 0
    covers = [chunk.covers for chunk in made.chunks[:upto] if chunk.covers is not None]
    return [_checkpoint(path, policy, identity + n, covered) for n, covered in enumerate(covers, 1)]


def _summary(policy: Policy) -> int:
    return policy.summary_tokens + policy.pins_tokens + policy.ledger_tokens


def _checkpoint(path: Sequence[PathMessage], policy: Policy, identity: int, covers: int) -> Checkpoint:
    last = path[covers - 1]
    cost = sum(message.tokens for message in path[:covers])
    return Checkpoint(identity, last.id, last.digest, covers, cost, _summary(policy))


def reads_of(chunks: Sequence[Chunk]) -> list[tuple[Position, int]]:
    return [(read.position, read.pieces) for chunk in chunks for read in chunk.reads]


def expected_reads(path: Sequence[PathMessage], start: int, end: int, policy: Policy) -> list[tuple[Position, int]]:
    """Every step between two path messages; one larger than a call in as few pieces as fit."""
    reads = []
    for message in range(start, end):
        for step, cost in enumerate(path[message].step_tokens):
            pieces = max(-(-cost // policy.chunk_tokens), 1)
            reads += [(Position(message, step, piece), pieces) for piece in range(pieces)]
    return reads


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[PathMessage], list[Checkpoint], Policy]:
    """A path, a policy, and checkpoints of earlier rounds, of other branches, and of nothing at all."""
    path, policy = draw(PATHS), draw(POLICIES)
    checkpoints: list[Checkpoint] = []
    starts = turn_starts(path)
    for identity, covers in enumerate(draw(st.lists(st.sampled_from(starts), max_size=3)) if starts else [], 1):
        if covers:
            found = _checkpoint(path, policy, identity, covers)
            strange = {"digest": "0" * 32} if draw(st.booleans()) and draw(st.booleans()) else {}
            checkpoints.append(replace(found, **strange))  # type: ignore[arg-type]
    checkpoints += [Checkpoint(99, "m1", "1" * 32, 2, 5, 1)] * draw(st.integers(0, 1))
    return path, checkpoints, policy


# ---- what holds for every plan


@given(situations())
@settings(max_examples=50)
def test_the_same_input_gives_the_same_plan(situation: tuple[list[PathMessage], list[Checkpoint], Policy]) -> None:
    path, checkpoints, policy = situation
    assert plan(path, checkpoints, policy) == plan(tuple(path), checkpoints[::-1], policy)


@given(situations())
@settings(max_examples=120)
def test_every_step_is_read_exactly_once_and_in_order(
    situation: tuple[list[PathMessage], list[Checkpoint], Policy],
) -> None:
    path, checkpoints, policy = situation
    made = plan(path, checkpoints, replace(policy, max_chunks=1000))
    start = made.reuse.messages if made.reuse else 0
    if made.chunks:
        assert made.complete
        assert reads_of(made.chunks) == expected_reads(path, start, made.tail_start, policy)
        assert made.chunks[-1].covers == made.tail_start
    else:
        assert made.reason


@given(situations())
@settings(max_examples=80)
def test_a_round_is_the_beginning_of_the_whole_work(
    situation: tuple[list[PathMessage], list[Checkpoint], Policy],
) -> None:
    path, checkpoints, policy = situation
    whole, made = plan(path, checkpoints, replace(policy, max_chunks=1000)), plan(path, checkpoints, policy)
    assert made.chunks == whole.chunks[: policy.max_chunks]
    assert made.complete == (len(whole.chunks) <= policy.max_chunks)


@given(situations())
@settings(max_examples=80)
def test_no_call_reads_more_than_it_may(situation: tuple[list[PathMessage], list[Checkpoint], Policy]) -> None:
    path, checkpoints, policy = situation
    for chunk in plan(path, checkpoints, policy).chunks:
        assert chunk.reads
        assert sum(read.tokens for read in chunk.reads) <= policy.chunk_tokens


@given(situations())
@settings(max_examples=80)
def test_boundaries_lie_at_the_ends_of_turns(situation: tuple[list[PathMessage], list[Checkpoint], Policy]) -> None:
    path, checkpoints, policy = situation
    made = plan(path, checkpoints, policy)
    covered = [chunk.covers for chunk in made.chunks if chunk.covers is not None]
    assert set(covered) <= set(turn_starts(path))
    assert covered == sorted(set(covered))
    for chunk in made.chunks:
        assert (chunk.covers is None) == (chunk.then is not None)
        assert (chunk.covers is None) == (chunk.part < chunk.parts)


@given(situations())
@settings(max_examples=80)
def test_a_step_is_split_only_when_it_is_larger_than_a_call(
    situation: tuple[list[PathMessage], list[Checkpoint], Policy],
) -> None:
    path, checkpoints, policy = situation
    for chunk in plan(path, checkpoints, policy).chunks:
        for read in chunk.reads:
            cost = path[read.position.message].step_tokens[read.position.step]
            assert (read.pieces > 1) == (cost > policy.chunk_tokens)
            assert read.tokens * read.pieces >= cost


@given(situations())
@settings(max_examples=120)
def test_the_newest_turn_stays_and_the_tail_fits(
    situation: tuple[list[PathMessage], list[Checkpoint], Policy],
) -> None:
    path, checkpoints, policy = situation
    made = plan(path, checkpoints, policy)
    starts = turn_starts(path)
    pinned = made.reuse is not None and made.tail_start == made.reuse.messages
    if not path:
        assert made.tail_start == 0
        return
    assert made.tail_start <= starts[-1]
    assert made.reuse is None or made.tail_start >= made.reuse.messages
    assert made.tail_start in starts
    tail = sum(message.tokens for message in path[made.tail_start :])
    assert tail <= policy.keep_tokens or made.tail_start == starts[-1] or pinned


# ---- rounds


def rounds(path: Sequence[PathMessage], checkpoints: list[Checkpoint], policy: Policy) -> Iterator[Plan]:
    """Plans and carries out until there is nothing to do, with a draft when a round ends inside a turn."""
    draft: Draft | None = None
    for _ in range(2000):
        made = plan(path, checkpoints, policy, draft=draft)
        yield made
        if not made.chunks:
            return
        checkpoints += carry_out(path, policy, made)
        draft = draft_after(path, made.chunks[-1], checkpoints)
    pytest.fail("never finishes")


def draft_after(path: Sequence[PathMessage], chunk: Chunk, checkpoints: Sequence[Checkpoint]) -> Draft | None:
    if chunk.then is None:
        return None
    base = max(checkpoints, key=lambda one: (one.messages, one.id)).id if checkpoints else None
    return Draft(base, path[chunk.then.position.message].digest, chunk.then.position, chunk.then.pieces)


@given(PATHS, POLICIES)
@settings(max_examples=80)
def test_after_a_complete_plan_there_is_nothing_to_do(path: list[PathMessage], policy: Policy) -> None:
    made = plan(path, [], replace(policy, max_chunks=1000))
    again = plan(path, carry_out(path, policy, made), policy)
    assert again.chunks == ()
    assert again.tail_start == made.tail_start or not made.chunks


@given(PATHS, POLICIES)
@settings(max_examples=80)
def test_rounds_of_some_calls_end_and_read_everything_once(path: list[PathMessage], policy: Policy) -> None:
    """The last steps below `step_tokens` may stay for later; what was read was read once and in order."""
    plans = list(rounds(path, [], policy))
    read = [read for made in plans for read in reads_of(made.chunks)]
    assert read == expected_reads(path, 0, len(path), policy)[: len(read)]
    last = plans[-1]
    if last.reuse and "prepare_at" not in last.reason:
        assert sum(message.tokens for message in path[last.reuse.messages : last.tail_start]) < policy.step_tokens


@given(messages(), messages(), POLICIES)
@settings(max_examples=80)
def test_growing_never_moves_an_earlier_boundary(
    before: list[tuple[str, int, tuple[int, ...]]], added: list[tuple[str, int, tuple[int, ...]]], policy: Policy
) -> None:
    path, longer = path_of(before), path_of(before + added)
    checkpoints: list[Checkpoint] = []
    list(rounds(path, checkpoints, policy))
    grown = plan(longer, checkpoints, policy)
    deepest = max(checkpoints, key=lambda one: one.messages, default=None)
    assert grown.reuse == deepest
    if grown.chunks:
        assert grown.chunks[0].reads[0].position == Position(deepest.messages if deepest else 0)


@given(messages(), st.integers(0, 40), POLICIES)
@settings(max_examples=70)
def test_a_checkpoint_of_another_branch_is_never_reused(
    chat: list[tuple[str, int, tuple[int, ...]]], at: int, policy: Policy
) -> None:
    """Same ids, and from message `at` on other text: an edit in place."""
    path = path_of(chat)
    checkpoints: list[Checkpoint] = []
    list(rounds(path, checkpoints, policy))
    edited = path[:at] + [replace(message, digest=message.digest[::-1]) for message in path[at:]]
    reuse = plan(edited, checkpoints, policy).reuse
    assert reuse == max((one for one in checkpoints if one.messages <= at), key=lambda one: one.messages, default=None)


def test_the_newest_of_equally_deep_checkpoints_is_reused() -> None:
    path = path_of([("user", 9, (9,)), ("assistant", 9, (9,))] * 4)
    policy = replace(Policy.sized(), prepare_at=1, step_tokens=1)
    one, corrected = (_checkpoint(path, policy, identity, 4) for identity in (3, 8))
    assert plan(path, [corrected, one], policy).reuse == corrected


# ---- long turns


@dataclass
class Reader:
    """A worker that dies after every call, and reads on from what it left."""

    path: Sequence[PathMessage]
    policy: Policy
    checkpoints: list[Checkpoint] = field(default_factory=list)
    draft: Draft | None = None
    read: list[tuple[Position, int]] = field(default_factory=list)

    def run(self) -> None:
        for _ in range(2000):
            made = plan(self.path, self.checkpoints, self.policy, draft=self.draft)
            if not made.chunks:
                return
            first = made.chunks[0]
            self.read += reads_of([first])
            self.checkpoints += carry_out(self.path, self.policy, made, 1)
            self.draft = draft_after(self.path, first, self.checkpoints)
        pytest.fail("never finishes")


@given(messages(largest=1500), POLICIES)
@settings(max_examples=40)
def test_a_crash_after_each_call_reads_nothing_twice_and_skips_nothing(
    chat: list[tuple[str, int, tuple[int, ...]]], policy: Policy
) -> None:
    path = path_of(chat)
    reader = Reader(path, policy)
    reader.run()
    assert reader.read == expected_reads(path, 0, len(path), policy)[: len(reader.read)]
    left = plan(path, reader.checkpoints, policy, draft=reader.draft)
    assert reader.draft is None or "prepare_at" in left.reason, "a part-read turn was left behind"


LONG = path_of([("user", 10, (10,)), ("assistant", 3050, (1000, 1000, 1000, 50)), ("user", 10, (10,))])
SMALL = Policy(
    window_tokens=4000,
    apply_at=3000,
    prepare_at=1000,
    keep_tokens=500,
    keep_messages=10,
    step_tokens=100,
    summary_tokens=50,
    pins_tokens=50,
    entry_tokens=20,
    ledger_tokens=50,
    chunk_tokens=400,
    max_chunks=2,
)


def test_a_draft_is_taken_up_where_it_stopped() -> None:
    first = plan(LONG, [], SMALL)
    draft = draft_after(LONG, first.chunks[-1], [])
    assert not first.complete
    assert draft is not None
    second = plan(LONG, [], SMALL, draft=draft)
    assert second.draft == draft
    assert second.chunks[0].reads[0].position == draft.position > first.chunks[-1].reads[-1].position


@pytest.mark.parametrize(
    "strange",
    [
        {"base": 7},
        {"digest": "0" * 32},
        {"pieces": 4},
        {"position": Position(1, 1, 3)},
        {"position": Position(1, 9, 0)},
        {"position": Position(2)},
        {"position": Position(9)},
    ],
    ids=str,
)
def test_a_draft_that_does_not_fit_is_ignored(strange: dict[str, object]) -> None:
    good = Draft(None, LONG[1].digest, Position(1, 1, 0), 3)
    assert plan(LONG, [], SMALL, draft=good).draft == good
    made = plan(LONG, [], SMALL, draft=replace(good, **strange))  # type: ignore[arg-type]
    assert made.draft is None
    assert made.chunks == plan(LONG, [], SMALL).chunks


def test_parts_of_a_long_turn_are_numbered() -> None:
    chunks = plan(LONG, [], replace(SMALL, max_chunks=100)).chunks
    assert [chunk.part for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert {chunk.parts for chunk in chunks} == {len(chunks)}
    assert [chunk.covers for chunk in chunks] == [None] * (len(chunks) - 1) + [2]
    assert all(one.then == two.reads[0] for one, two in pairwise(chunks))


# ---- the tail


def test_the_keep_count_goes_10_5_2_and_then_the_newest_turn() -> None:
    def kept(size: int) -> int:
        path = path_of([("user", size, (size,)), ("assistant", size, (size,))] * 20)
        policy = replace(Policy.sized(), prepare_at=1, step_tokens=1, keep_tokens=1000)
        return len(path) - plan(path, [], policy).tail_start

    # turns of two messages: 10 messages are 5 turns, 5 are 3, 2 are the newest alone
    assert [kept(100), kept(101), kept(166), kept(167), kept(500), kept(501)] == [10, 6, 6, 2, 2, 2]


def test_what_a_checkpoint_covers_is_never_part_of_the_tail() -> None:
    path = path_of([("user", 10, (10,)), ("assistant", 10, (10,))] * 6)
    policy = replace(Policy.sized(), prepare_at=1, step_tokens=1)
    assert plan(path, [], policy).tail_start == 2
    assert plan(path, [_checkpoint(path, policy, 1, 8)], policy).tail_start == 8


def test_user_messages_in_a_row_open_one_turn() -> None:
    path = path_of([("user", 1, (1,)), ("user", 1, (1,)), ("assistant", 1, (1,)), ("user", 1, (1,))])
    assert turn_starts(path) == [0, 3]
    assert turn_starts([]) == []
    assert turn_starts(path_of([("assistant", 1, (1,)), ("user", 1, (1,))])) == [0, 1]


# ---- when there is something to do


def test_overhead_makes_work_due_earlier() -> None:
    path = path_of([("user", 500, (500,)), ("assistant", 500, (500,))] * 5)
    policy = replace(Policy.sized(), prepare_at=6000, step_tokens=100, keep_tokens=1000)
    assert plan(path, [], policy).reason.startswith("5000 tokens are below prepare_at")
    assert plan(path, [], replace(policy, overhead=1000)).chunks


def test_less_than_a_step_is_not_worth_a_checkpoint() -> None:
    path = path_of([("user", 50, (50,)), ("assistant", 50, (50,))] * 10)
    policy = replace(Policy.sized(), prepare_at=1, keep_tokens=200, step_tokens=901)
    assert "a step is 901" in plan(path, [], policy).reason
    assert plan(path, [], replace(policy, step_tokens=900)).chunks


@given(messages(), POLICIES, st.data())
@settings(max_examples=70)
def test_the_largest_summary_never_makes_itself_due_again(
    chat: list[tuple[str, int, tuple[int, ...]]], policy: Policy, data: st.DataObject
) -> None:
    """Even above the window: only `step_tokens` of new messages do."""
    path = path_of(chat)
    checkpoints = carry_out(path, policy, plan(path, [], replace(policy, max_chunks=1000)))
    fat = [replace(one, tokens=data.draw(st.integers(0, 5000))) for one in checkpoints]
    if fat:
        assert plan(path, fat, policy).chunks == ()
        longer = path_of(
            [*chat, ("user", policy.step_tokens // 2, (1,)), ("user", (policy.step_tokens - 1) // 2, (1,))]
        )
        assert sum(message.tokens for message in longer[len(path) :]) < policy.step_tokens
        again = plan(longer, fat, policy)
        newly = sum(message.tokens for message in longer[fat[-1].messages : again.tail_start])
        assert not again.chunks or newly >= policy.step_tokens


@pytest.mark.parametrize(
    ("counted", "estimated", "expected"),
    [(1200, 1000, 200), (900, 1000, 0), (90_000, 1000, 4096)],
)
def test_a_measured_overhead_is_bounded(counted: int, estimated: int, expected: int) -> None:
    assert measured_overhead(counted, estimated, window=8192) == expected


# ---- cost


class Counted(Sequence[PathMessage]):
    """A path that counts how often a message of it is looked at."""

    def __init__(self, path: Sequence[PathMessage]) -> None:
        self.path, self.looks = path, 0

    def __len__(self) -> int:
        return len(self.path)

    @overload
    def __getitem__(self, index: int) -> PathMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PathMessage]: ...
    def __getitem__(self, index: int | slice) -> PathMessage | Sequence[PathMessage]:
        self.looks += len(self.path[index]) if isinstance(index, slice) else 1
        return self.path[index]

    def __iter__(self) -> Iterator[PathMessage]:
        for message in self.path:
            self.looks += 1
            yield message


def test_work_grows_linearly_with_the_path() -> None:
    def looks(length: int) -> int:
        path = path_of([("user", 300, (300,)), ("assistant", 900, (500, 400))] * (length // 2))
        some = [_checkpoint(path, Policy.sized(), n, 2 * n) for n in range(1, 20)]
        counted = Counted(path)
        assert plan(counted, some, replace(Policy.sized(8192), max_chunks=1000)).chunks
        return counted.looks

    short, long = looks(200), looks(2000)
    assert short <= 8 * 200
    assert long <= 10.5 * short


# ---- budgets in proportion to the window


def test_the_default_budgets_are_those_of_the_design() -> None:
    policy = Policy.sized()
    assert policy == Policy.sized(131_072)
    assert (policy.window_tokens, policy.apply_at, policy.prepare_at) == (131_072, 100_000, 65_536)
    assert (policy.keep_tokens, policy.keep_messages, policy.step_tokens) == (32_768, 10, 26_214)
    assert (policy.summary_tokens, policy.pins_tokens, policy.ledger_tokens) == (2000, 5000, 4000)


WINDOWS = [*range(2048, 40_000, 37), 65_536, 131_072, 262_144, 1_048_576]
FULL_STEP_FROM = 5000
"""Below, a step that is worth its call does not fit beside the tail and the summary: what fits has to do."""


@pytest.mark.parametrize("summariser", [2048, 4096, 8192, 32_768, 131_072])
def test_budgets_are_positive_and_bounded_at_every_window(summariser: int) -> None:
    for window in WINDOWS:
        policy = Policy.sized(window, summariser)
        assert all(getattr(policy, name) > 0 for name in Policy.__dataclass_fields__ if name != "overhead")
        assert policy.prepare_at < policy.apply_at < window
        assert policy.summary_tokens <= 2000
        assert policy.summary_tokens <= max(window * 8 // 100, 128)
        assert policy.entry_tokens <= min(1000, policy.pins_tokens)


@pytest.mark.parametrize("summariser", [2048, 4096, 8192, 32_768, 131_072])
def test_step_tail_and_summary_fit_under_the_threshold_together(summariser: int) -> None:
    for window in WINDOWS:
        policy = Policy.sized(window, summariser)
        assert policy.step_tokens + policy.keep_tokens + _summary(policy) <= policy.apply_at, window


@pytest.mark.parametrize("share", [0.02, 0.2, 0.4])
def test_step_tail_and_summary_fit_under_the_threshold_beside_the_tools(share: float) -> None:
    """Open WebUI's own tools take 7,000 tokens of each request: a fifth of a window of 32k."""
    for window in (window for window in WINDOWS if window * (1 - share * 1.4) > FULL_STEP_FROM):
        overhead = int(window * share)
        policy = Policy.sized(window, overhead=overhead)
        taken = overhead + policy.step_tokens + policy.keep_tokens + _summary(policy)
        assert taken <= policy.apply_at == Policy.sized(window).apply_at, window
        assert policy.prepare_at == window // 2


@pytest.mark.parametrize("summariser", [4096, 8192, 32_768])
def test_what_a_call_reads_again_is_a_quarter_of_what_it_reads_new(summariser: int) -> None:
    for window in (window for window in WINDOWS if window >= FULL_STEP_FROM):
        policy = Policy.sized(window, summariser)
        again = policy.summary_tokens + policy.entry_tokens + PROMPT_TOKENS
        assert policy.step_tokens >= 4 * again or policy.step_tokens >= window // 5, window


@pytest.mark.parametrize("summariser", [4096, 8192, 16_384, 32_768])
@pytest.mark.parametrize("window", [2048, 8192, 131_072])
def test_a_call_fits_the_window_of_its_summariser(window: int, summariser: int) -> None:
    policy = Policy.sized(window, summariser)
    read = policy.chunk_tokens + policy.summary_tokens + policy.entry_tokens + PROMPT_TOKENS + REPAIR_TOKENS
    assert read + output_tokens(policy.summary_tokens) <= summariser


@pytest.mark.parametrize("limit", [1, 128, 2000])
def test_a_summariser_may_write_more_than_it_is_asked_for(limit: int) -> None:
    assert output_tokens(limit) >= 2 * limit


def test_budgets_never_shrink_with_the_window() -> None:
    policies = [Policy.sized(window) for window in WINDOWS]
    for small, large in pairwise(policies):
        assert small.apply_at <= large.apply_at
        assert small.keep_tokens <= large.keep_tokens
        assert small.summary_tokens <= large.summary_tokens
        assert small.pins_tokens <= large.pins_tokens
        assert small.ledger_tokens <= large.ledger_tokens
