"""Planning of turns that are larger than a call: read in parts, and taken up where they were left."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings

from service.planning.plan import Checkpoint, PartialTurn, PathMessage, Position, plan
from service.planning.policy import Policy
from tests.effort import examples
from tests.pure.paths import POLICIES, Sizes, carry_out, draft_after, expected_reads, messages, path_of, reads_of


@dataclass
class Reader:
    """A worker that dies after every call, and reads on from what it left."""

    path: Sequence[PathMessage]
    policy: Policy
    checkpoints: list[Checkpoint] = field(default_factory=list)
    partial: PartialTurn | None = None
    read: list[tuple[Position, int]] = field(default_factory=list)

    def run(self) -> None:
        for _ in range(2000):
            made = plan(self.path, self.checkpoints, self.policy, partial=self.partial)
            if not made.chunks:
                return
            first = made.chunks[0]
            self.read += reads_of([first])
            self.checkpoints += carry_out(self.path, self.policy, made, 1)
            self.partial = draft_after(self.path, first, self.checkpoints)
        pytest.fail("never finishes")


@given(messages(largest=1500), POLICIES)
@settings(max_examples=examples(40))
def test_a_crash_after_each_call_reads_nothing_twice_and_skips_nothing(chat: list[Sizes], policy: Policy) -> None:
    path = path_of(chat)
    reader = Reader(path, policy)
    reader.run()
    assert reader.read == expected_reads(path, 0, len(path), policy)[: len(reader.read)]
    left = plan(path, reader.checkpoints, policy, partial=reader.partial)
    assert reader.partial is None or "prepare_at" in left.reason, "a part-read turn was left behind"


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


def test_a_draft_is_taken_up_where_it_stopped() -> None:
    first = plan(LONG, [], SMALL)
    partial = draft_after(LONG, first.chunks[-1], [])
    assert not first.complete
    assert partial is not None
    second = plan(LONG, [], SMALL, partial=partial)
    assert second.partial == partial
    assert second.chunks[0].reads[0].position == partial.position > first.chunks[-1].reads[-1].position


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
    good = PartialTurn(None, LONG[1].digest, Position(1, 1, 0), 3)
    assert plan(LONG, [], SMALL, partial=good).partial == good
    made = plan(LONG, [], SMALL, partial=replace(good, **strange))  # type: ignore[arg-type]
    assert made.partial is None
    assert made.chunks == plan(LONG, [], SMALL).chunks


def test_parts_of_a_long_turn_are_numbered() -> None:
    chunks = plan(LONG, [], replace(SMALL, max_chunks=100)).chunks
    assert [chunk.part for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert {chunk.parts for chunk in chunks} == {len(chunks)}
    assert [chunk.covers for chunk in chunks] == [None] * (len(chunks) - 1) + [2]
    assert all(one.then == two.reads[0] for one, two in pairwise(chunks))
