"""Planning of turns that are larger than a call: read in parts, of which only the last one moves the boundary."""

from dataclasses import replace

from hypothesis import given, settings

from service.planning.plan import plan
from service.planning.policy import Policy
from tests.effort import examples
from tests.pure.paths import POLICIES, Sizes, messages, path_of

LONG = path_of([("user", 10, (10,)), ("assistant", 3050, (1000, 1000, 1000, 50)), ("user", 10, (10,))])
SMALL = Policy(
    window_tokens=4000,
    apply_at=3000,
    prepare_at=1000,
    request_tokens=1600,
    keep_tokens=500,
    keep_messages=10,
    step_tokens=100,
    code_tokens=25,
    state_tokens=50,
    summary_tokens=150,
    entry_tokens=20,
    chunk_tokens=400,
    max_chunks=2,
)


@given(messages(largest=1500), POLICIES)
@settings(max_examples=examples(40))
def test_a_round_never_ends_inside_a_turn(chat: list[Sizes], policy: Policy) -> None:
    made = plan(path_of(chat), [], policy)

    assert not made.chunks or made.chunks[-1].covers is not None
    assert all(chunk.covers is None for chunk in made.chunks[policy.max_chunks - 1 : -1])


def test_parts_of_a_long_turn_are_numbered_and_the_last_one_covers_it() -> None:
    chunks = plan(LONG, [], replace(SMALL, max_chunks=100)).chunks
    assert [chunk.part for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert {chunk.parts for chunk in chunks} == {len(chunks)}
    assert [chunk.covers for chunk in chunks] == [None] * (len(chunks) - 1) + [2]
    assert plan(LONG, [], SMALL).chunks == chunks
