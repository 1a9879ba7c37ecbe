"""Planning: what is covered, in which calls, and what stays verbatim, over random paths, policies and checkpoints."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import cycle, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.planning.plan import (
    Checkpoint,
    Chunk,
    PathMessage,
    Plan,
    Position,
    find_turn_starts,
    is_poorer,
    plan,
)
from service.planning.policy import Policy, find_request_room, find_usage_factor
from tests.effort import examples

# ---- random chats

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
    overhead=st.just(0),
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


# ---- what holds for every plan


@given(situations())
@settings(max_examples=examples(120))
def test_every_step_is_read_exactly_once_and_in_order_but_for_a_rest_that_would_fill_no_call(
    situation: Situation,
) -> None:
    path, checkpoints, policy = situation
    made = plan(path, checkpoints, policy)
    start = made.reuse.messages if made.reuse else 0
    if made.chunks:
        end = made.chunks[-1].covers
        assert end
        assert reads_of(made.chunks) == expected_reads(path, start, end, policy)
        rest = path[end : made.tail_start]
        assert not rest or sum(message.tokens for message in rest) < policy.step_tokens
        assert sum(sum(message.step_tokens) for message in rest) < policy.chunk_tokens * 3 // 4
    else:
        assert made.reason


@given(situations())
@settings(max_examples=examples(80))
def test_code_leaves_no_rest(situation: Situation) -> None:
    path, checkpoints, policy = situation
    made = plan(path, checkpoints, policy, by_code=True)
    assert not made.chunks or made.chunks[-1].covers == made.tail_start


@given(situations())
@settings(max_examples=examples(80))
def test_no_call_reads_more_than_it_may(situation: Situation) -> None:
    path, checkpoints, policy = situation
    for chunk in plan(path, checkpoints, policy).chunks:
        assert chunk.reads
        assert sum(read.tokens for read in chunk.reads) <= policy.chunk_tokens


@given(situations())
@settings(max_examples=examples(80))
def test_boundaries_lie_at_the_ends_of_turns(situation: Situation) -> None:
    path, checkpoints, policy = situation
    made = plan(path, checkpoints, policy)
    covered = [chunk.covers for chunk in made.chunks if chunk.covers is not None]
    assert set(covered) <= set(find_turn_starts(path))
    assert covered == sorted(set(covered))
    assert not made.chunks or made.chunks[-1].covers is not None
    part = 0
    for chunk in made.chunks:
        part += 1
        assert (chunk.part, chunk.covers is None) == (part, part < chunk.parts)
        part = 0 if part == chunk.parts else part


@given(situations())
@settings(max_examples=examples(120))
def test_the_newest_turn_stays_and_the_tail_fits(situation: Situation) -> None:
    path, checkpoints, policy = situation
    made = plan(path, checkpoints, policy)
    starts = find_turn_starts(path)
    pinned = made.reuse is not None and made.tail_start == made.reuse.messages
    if not path:
        assert made.tail_start == 0
        return
    assert made.tail_start <= starts[-1]
    assert made.reuse is None or made.tail_start >= made.reuse.messages
    assert made.tail_start in starts
    tail = sum(message.tokens for message in path[made.tail_start :])
    of_two_turns = made.tail_start in starts[-2:] and tail <= policy.request_tokens // 2
    assert tail <= policy.keep_tokens or of_two_turns or made.tail_start == starts[-1] or pinned


# ---- rounds


def rounds(path: Sequence[PathMessage], checkpoints: list[Checkpoint], policy: Policy) -> Iterator[Plan]:
    """Plans, and carries out the calls up to the end of a turn, until there is nothing to do."""
    for _ in range(2000):
        made = plan(path, checkpoints, policy)
        ends = [number for number, chunk in enumerate(made.chunks, 1) if chunk.covers is not None]
        done = replace(made, chunks=made.chunks[: ends[0]] if ends else ())
        yield done
        if not made.chunks:
            return
        checkpoints += carry_out(path, policy, done)
    pytest.fail("never finishes")


@given(messages(), messages(), POLICIES)
@settings(max_examples=examples(80))
def test_growing_never_moves_an_earlier_boundary(before: list[Sizes], added: list[Sizes], policy: Policy) -> None:
    path, longer = path_of(before), path_of(before + added)
    checkpoints: list[Checkpoint] = []
    list(rounds(path, checkpoints, policy))
    grown = plan(longer, checkpoints, policy)
    deepest = max(checkpoints, key=lambda one: one.messages, default=None)
    assert grown.reuse == deepest
    if grown.chunks:
        assert grown.chunks[0].reads[0].position == Position(deepest.messages if deepest else 0)


@given(messages(), st.integers(0, 40), POLICIES)
@settings(max_examples=examples(70))
def test_a_checkpoint_of_another_branch_is_never_reused(chat: list[Sizes], at: int, policy: Policy) -> None:
    """From message `at` on other text: an edit in place."""
    path = path_of(chat)
    checkpoints: list[Checkpoint] = []
    list(rounds(path, checkpoints, policy))
    edited = path[:at] + [replace(message, id=message.id[::-1]) for message in path[at:]]
    reuse = plan(edited, checkpoints, policy).reuse
    assert reuse == max((one for one in checkpoints if one.messages <= at), key=lambda one: one.messages, default=None)


def test_the_newest_of_equally_deep_checkpoints_is_reused() -> None:
    path = path_of([("user", 9, (9,)), ("assistant", 9, (9,))] * 4)
    policy = replace(Policy.sized(), prepare_at=1, step_tokens=1)
    one, corrected = (checkpoint_of(path, policy, identity, 4) for identity in (3, 8))
    assert plan(path, [corrected, one], policy).reuse == corrected


def test_each_call_that_ends_a_turn_covers_it() -> None:
    path = path_of([("user", 50, (50,)), ("assistant", 50, (50,))] * 9)
    policy = replace(Policy.sized(), prepare_at=1, step_tokens=1, keep_messages=2, chunk_tokens=250)
    assert [chunk.covers for chunk in plan(path, [], policy).chunks] == [4, 8, 12, 16]


# ---- the tail


def test_the_keep_count_goes_10_5_2_and_then_the_newest_two_turns_or_one() -> None:
    def kept(size: int, request: int = 4000) -> int:
        path = path_of([("user", size, (size,)), ("assistant", size, (size,))] * 20)
        policy = replace(Policy.sized(), prepare_at=1, step_tokens=1, keep_tokens=1000, request_tokens=request)
        return len(path) - plan(path, [], policy).tail_start

    # turns of two messages: 10 messages are 5 turns, 5 are 3
    assert [kept(100), kept(101), kept(166), kept(167), kept(500), kept(501)] == [10, 6, 6, 2, 2, 2]
    # two turns of a half of a request stay, whatever else is wanted
    assert [kept(501, 4008), kept(501, 4007)] == [4, 2]


def test_user_messages_in_a_row_open_one_turn() -> None:
    path = path_of([("user", 1, (1,)), ("user", 1, (1,)), ("assistant", 1, (1,)), ("user", 1, (1,))])
    assert find_turn_starts(path) == [0, 3]
    assert find_turn_starts([]) == []
    assert find_turn_starts(path_of([("assistant", 1, (1,)), ("user", 1, (1,))])) == [0, 1]


# ---- when there is something to do


def test_overhead_makes_work_due_earlier() -> None:
    path = path_of([("user", 500, (500,)), ("assistant", 500, (500,))] * 5)
    policy = replace(Policy.sized(), prepare_at=6000, step_tokens=100, keep_tokens=1000)
    assert plan(path, [], policy).reason.startswith("5000 tokens are below prepare_at")
    assert plan(path, [], replace(policy, overhead=1000)).chunks


def test_code_covers_what_fits_and_less_when_a_request_is_too_large() -> None:
    path = path_of([("user", 50, (50,)), ("assistant", 50, (50,))] * 10)
    policy = replace(Policy.sized(), prepare_at=1, keep_tokens=200, step_tokens=3600, code_tokens=225)

    def by_code(**other: int) -> Plan:
        return plan(path, [], replace(policy, **other), by_code=True)

    assert by_code().chunks
    assert by_code(step_tokens=900, code_tokens=901).chunks
    assert "a step is 904" in by_code(code_tokens=226).reason
    assert by_code(code_tokens=226, apply_at=999).chunks
    assert by_code(code_tokens=900, apply_at=999).chunks
    assert "a step is 901" in by_code(code_tokens=901, apply_at=999).reason


def test_while_a_summary_serves_code_writes_the_next_one_only_when_a_question_has_no_room() -> None:
    path = path_of([("user", 50, (50,)), ("assistant", 50, (50,))] * 10)
    policy = replace(Policy.sized(), prepare_at=1, keep_tokens=200, step_tokens=100, code_tokens=100, apply_at=951)
    served = [checkpoint_of(path, policy, 1, 2)]
    size = 1000 - served[0].covered_tokens + served[0].tokens

    def by_code(**other: int) -> Plan:
        return plan(path, served, replace(policy, **other), by_code=True)

    assert "has room for another question" in by_code(apply_at=size + 50).reason
    assert by_code(apply_at=size + 49).chunks
    assert by_code(apply_at=size + 49).tail_start > len(path) - 6, "and then it covers all down to the tail"
    # What a model wrote since is carried on whatever the request's size is.
    assert plan(path, served, replace(policy, apply_at=10**6), by_code=True, reach=10).chunks
    # One long paste among the last questions is no measure of the next one.
    pasted = path_of(
        [("user", 50, (50,)), ("assistant", 50, (50,))] * 8 + [("user", 500, (500,)), ("assistant", 1, (1,))]
    )
    now = sum(message.tokens for message in pasted) - served[0].covered_tokens + served[0].tokens
    assert not plan(pasted, served, replace(policy, apply_at=now + 50), by_code=True).chunks


def test_what_would_not_fill_another_call_waits_for_what_comes() -> None:
    path = path_of([("user", 50, (50,)), ("assistant", 50, (50,))] * 20)
    policy = replace(Policy.sized(), prepare_at=1, keep_tokens=200, step_tokens=1500, chunk_tokens=1200)
    (call,) = plan(path, [], policy).chunks
    assert (call.covers, sum(read.tokens for read in call.reads)) == (24, 1200)
    assert len(plan(path, [], replace(policy, chunk_tokens=1000)).chunks) == 2, "the second one is nearly full"
    assert len(plan(path, [], policy, by_code=True).chunks) == 2, "no call of code's costs anything"


def test_less_than_a_step_is_not_worth_a_call_and_half_of_one_is_enough_for_the_first() -> None:
    path = path_of([("user", 50, (50,)), ("assistant", 50, (50,))] * 10)
    policy = replace(Policy.sized(), prepare_at=1, keep_tokens=200, step_tokens=1800)
    assert plan(path, [], policy).chunks
    assert "a step is 901" in plan(path, [], replace(policy, step_tokens=1801)).reason
    read = checkpoint_of(path, policy, 1, 2)
    assert "a step is 801" in plan(path, [read], replace(policy, step_tokens=801)).reason
    assert plan(path, [read], replace(policy, step_tokens=800)).chunks
    long = path_of([("user", 150, (150,)), ("assistant", 150, (150,))] * 12)
    short = replace(checkpoint_of(long, policy, 1, 2), tokens=40)
    assert "a step is 2400" in plan(long[:16], [short], replace(policy, step_tokens=9000)).reason
    assert plan(long, [short], replace(policy, step_tokens=9000)).chunks, "it repeats a short summary only"


# ---- calls that are worth it


# A turn that is too small for a summary stands before one that fills a call.
_SIZES = (60, 60, 390, 150, 390, 110, 380, 150)
_SMALL_THEN_LARGE = path_of([(role, size, (size,)) for role, size in zip(cycle(("user", "assistant")), _SIZES)])
_HALF_A_CALL = replace(Policy.sized(), prepare_at=1, keep_tokens=20, step_tokens=200, chunk_tokens=400)


@given(situations())
@example((_SMALL_THEN_LARGE, [], _HALF_A_CALL))
@settings(max_examples=examples(120))
def test_every_call_and_every_checkpoint_is_worth_it(situation: Situation) -> None:
    path, checkpoints, policy = situation
    made = plan(path, checkpoints, policy)
    for chunk in made.chunks:
        assert sum(read.tokens for read in chunk.reads) >= min(256, policy.chunk_tokens // 4) / 2

    def tokens(begin: int, end: int) -> int:
        return sum(message.tokens for message in path[begin:end])

    start = made.reuse.messages if made.reuse else 0
    covers = [chunk.covers for chunk in made.chunks if chunk.covers is not None]
    least = min(policy.step_tokens, policy.chunk_tokens // 2, tokens(start, made.tail_start))
    assert all(tokens(begin, end) >= least for begin, end in pairwise([start, *covers]))


def test_what_a_model_would_read_in_a_few_dozen_tokens_waits_and_code_covers_it() -> None:
    path = path_of([("user", 500, (20,)), ("assistant", 500, (8,))] * 10)
    policy = replace(Policy.sized(), prepare_at=1, keep_tokens=2000, step_tokens=100)
    assert plan(path, [], policy).reason == "only 252 tokens to read, a call reads 256 at least"
    assert plan(path, [], policy, by_code=True).chunks


@pytest.mark.parametrize(
    ("steps", "calls"),
    [
        ((600, 600, 600, 600, 30), [1200, 1230]),  # not 1800 and 630
        ((1744, 1744, 40), [1744, 1784]),
        ((900, 900, 900, 900, 900), [1800, 1800, 900]),
        ((500,) * 9, [1500, 1500, 1500]),  # not 2000, 2000 and 500
        ((20, 1744, 1744, 20), [1764, 1764]),
        ((2000, 5), [1000, 1005]),  # a step that nearly fills a call leaves room for what is short
    ],
)
def test_the_calls_of_a_long_turn_read_about_as_much_each(steps: tuple[int, ...], calls: list[int]) -> None:
    path = path_of([("user", 0, ()), ("assistant", sum(steps), steps), ("user", 1, (1,)), ("assistant", 1, (1,))])
    policy = replace(Policy.sized(), prepare_at=1, step_tokens=1, keep_messages=2, chunk_tokens=2000)
    made = plan(path, [], policy)
    assert [sum(read.tokens for read in chunk.reads) for chunk in made.chunks] == calls


@given(messages(), POLICIES, st.data())
@settings(max_examples=examples(70))
def test_the_largest_summary_never_makes_itself_due_again(
    chat: list[Sizes], policy: Policy, data: st.DataObject
) -> None:
    """Even above the window: only a step of new messages does, and that of a large summary is the largest.

    What a plan leaves because it would fill no call counts as new until it is covered.
    """
    path = path_of(chat)
    checkpoints = carry_out(path, policy, plan(path, [], policy))
    fat = [replace(one, tokens=data.draw(st.integers(policy.step_tokens, 50_000))) for one in checkpoints]
    if fat:
        done = plan(path, fat, policy)
        waiting = sum(message.tokens for message in path[fat[-1].messages : done.tail_start])
        assert not done.chunks
        assert not waiting or waiting < policy.step_tokens
        longer = path_of(
            [*chat, ("user", policy.step_tokens // 2, (1,)), ("user", (policy.step_tokens - 1) // 2, (1,))]
        )
        assert sum(message.tokens for message in longer[len(path) :]) < policy.step_tokens
        again = plan(longer, fat, policy)
        newly = sum(message.tokens for message in longer[fat[-1].messages : again.tail_start])
        assert not again.chunks or newly >= policy.step_tokens


@pytest.mark.parametrize(
    ("prompt_tokens", "counted", "factor"),
    [
        (1200, 1000, 1.2),
        (900, 1000, 1.0),  # of a tokenizer that counts less, or without what the provider had in its cache
        (3000, 1000, 3.0),
        (3001, 1000, None),  # it counts something else, such as the sum over all calls
        (5, 0, None),
    ],
)
def test_what_a_provider_counts_for_one_of_our_tokens_is_bounded(
    prompt_tokens: int, counted: int, factor: float | None
) -> None:
    assert find_usage_factor(prompt_tokens, counted) == factor


@pytest.mark.parametrize(
    ("window", "wanted", "beside", "room"),
    [
        (8192, 0, 0, 7168),  # an eighth is for the answer
        (8192, 2000, 0, 6192),
        (8192, 100_000, 0, 4096),  # no more than half, whatever is asked for
        (8192, 0, 7000, 7795),  # beside tools that leave little, a third of what they leave
        (8192, 0, 9000, 8192),
    ],
)
def test_a_request_leaves_room_for_its_answer(window: int, wanted: int, beside: int, room: int) -> None:
    assert find_request_room(window, wanted, beside) == room


def test_a_summary_for_a_window_less_than_half_as_large_is_poorer() -> None:
    assert [is_poorer(8192, window) for window in (4096, 16_384, 16_385)] == [False, False, True]
