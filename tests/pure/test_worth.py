"""No checkpoint of little: what is too small for a summary is read with the turn that follows it."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from service.planning.plan import PathMessage, Plan, find_turn_starts, plan
from service.planning.policy import Policy
from tests.effort import examples
from tests.pure.paths import Sizes, path_of


@dataclass(frozen=True)
class Chat:
    """A path above its window, and the budgets for it."""

    path: list[PathMessage]
    policy: Policy

    def plan(self) -> Plan:
        return plan(self.path, [], self.policy)

    def tokens(self, start: int, end: int) -> int:
        return sum(message.tokens for message in self.path[start:end])


@st.composite
def chats(draw: st.DrawFn) -> Chat:
    """Turns of any length, up to several windows of the model and of the summariser."""
    window = draw(st.sampled_from([2048, 4096, 8192, 32_768, 131_072]))
    summariser = draw(st.sampled_from([4096, 8192, 32_768, 131_072]))
    policy = Policy.sized(window, summariser)
    short, long = st.integers(1, 100), st.integers(1, 2 * window)
    turns = draw(st.lists(st.tuples(short | long, short | long), min_size=1, max_size=12))
    tail = draw(st.integers(0, 14))
    said = [*turns, *[(40, 60)] * tail]
    while sum(map(sum, said)) <= window:
        said = [(30, window // 4), *said]
    messages: list[Sizes] = []
    for question, answer in said:
        messages.append(("user", question, (question,)))
        messages.append(("assistant", answer, (answer // 2, answer - answer // 2)))
    return Chat(path_of(messages), policy)


@given(chats())
@settings(max_examples=examples(300))
def test_every_checkpoint_covers_enough_to_be_worth_it(chat: Chat) -> None:
    made = chat.plan()
    covers = [chunk.covers for chunk in made.chunks if chunk.covers is not None]

    least = min(chat.policy.step_tokens, chat.policy.chunk_tokens // 2, chat.tokens(0, made.tail_start))
    assert all(chat.tokens(start, end) >= least for start, end in pairwise([0, *covers]))
    assert set(covers) <= set(find_turn_starts(chat.path))
