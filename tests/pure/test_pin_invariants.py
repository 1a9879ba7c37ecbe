"""Invariants of the pins over rounds of random talk, proposals and marks."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service.summarising import pins
from service.summarising.memory import Kind
from service.summarising.pins import Extended, Proposal
from service.summarising.sentences import own_words, split
from service.summarising.superseding import Mark
from service.transcript import Step
from tests.pure.test_pins import CONSTRAINTS, FACTS, PLENTY, extend

PROSE = st.lists(
    st.sampled_from(
        [
            "We must keep it below 500 EUR.",
            "It is not for sale.",
            "The budget is now 600 EUR.",
            "The budget is 700 EUR instead of 600 EUR.",
            "We decided to use PostgreSQL 17.",
            "Let's use Redis instead.",
            "I prefer tea.",
            "Shall I go on?",
            "Yes.",
            "Actually, forget the 17 boxes.",
            "The file is /srv/q3.csv.",
            "My goal is 12,847 visitors a day.",
            "That one has to be blue, and ZX-9 stays.",
            "Das Budget darf 600 Euro nie überschreiten.",
            "Thanks!",
        ]
    ),
    max_size=6,
).map(" ".join)
MESSAGES = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), PROSE), max_size=6)
WILD = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), PROSE | st.text(max_size=80)), max_size=6)
PROPOSALS = st.lists(
    st.builds(Proposal, PROSE | st.text(max_size=40), st.sampled_from([CONSTRAINTS, FACTS])), max_size=3
)
MARKS = st.lists(st.builds(Mark, st.integers(0, 12), PROSE | st.text(max_size=40)), max_size=3)
ROUNDS = st.lists(st.tuples(WILD, PROPOSALS, MARKS), min_size=1, max_size=3)
Round = tuple[list[tuple[str, str]], list[Proposal], list[Mark]]


def steps_of(messages: Sequence[tuple[str, str]], prefix: str = "m") -> list[Step]:
    return [Step(f"{prefix}{number}", role, text) for number, (role, text) in enumerate(messages)]


def play(rounds: Sequence[Round], limit: int) -> list[Extended]:
    """What the pins are after each round; messages have ids such as `r0-2`."""
    made: list[Extended] = []
    for number, (messages, proposals, marks) in enumerate(rounds):
        before = made[-1].pins if made else ()
        made.append(extend(before, steps_of(messages, f"r{number}-"), proposals, marks, limit))
    return made


@given(MESSAGES, PROPOSALS)
def test_every_pins_text_stands_in_its_source_word_for_word(
    messages: list[tuple[str, str]], proposals: list[Proposal]
) -> None:
    steps = steps_of(messages)
    texts = {step.message_id: " ".join(step.text.split()) for step in steps}
    for pin in extend([], steps, proposals).pins:
        question, arrow, reply = pin.text.partition(" → ")
        assert (reply or question) in texts[pin.source]
        assert not arrow or any(question in text for text in texts.values())


@given(ROUNDS)
def test_a_pin_is_made_of_sentences_of_its_source_whatever_is_said_and_proposed(rounds: list[Round]) -> None:
    own = {
        step.message_id: " ".join(split(own_words(step.text)))
        for number, (messages, _, _) in enumerate(rounds)
        for step in steps_of(messages, f"r{number}-")
    }
    for pin in play(rounds, PLENTY)[-1].pins:
        assert pin.text.partition(" → ")[2] in own[pin.source] or pin.text in own[pin.source]
        assert "\n" not in pin.text


@given(ROUNDS)
def test_with_room_no_pin_is_lost_or_changed_but_for_being_superseded(rounds: list[Round]) -> None:
    made = play(rounds, PLENTY)
    for earlier, later in pairwise(made):
        kept = {pin.number: pin for pin in later.pins}
        for pin in earlier.pins:
            after = kept[pin.number]
            assert after.text == pin.text
            assert (after.source, after.role) == (pin.source, pin.role) or (pin.role, after.role) == (
                "assistant",
                "user",
            )
            assert after.replaced_by == pin.replaced_by or pin.replaced_by is None
        assert later.left_out == 0


@given(ROUNDS, st.integers(0, 120))
def test_the_limit_holds_and_numbers_rise(rounds: list[Round], limit: int) -> None:
    for one in play(rounds, limit):
        assert pins.size(one.pins) <= limit
        numbers = [pin.number for pin in one.pins]
        assert numbers == sorted(set(numbers))


@given(ROUNDS, st.integers(0, 120))
def test_a_number_never_means_another_sentence(rounds: list[Round], limit: int) -> None:
    texts: dict[int, set[str]] = {}
    for one in play(rounds, limit):
        for pin in one.pins:
            texts.setdefault(pin.number, set()).add(pin.text)
    assert all(len(each) == 1 for each in texts.values())


@given(ROUNDS)
def test_only_a_users_later_sentence_supersedes(rounds: list[Round]) -> None:
    made = play(rounds, PLENTY)[-1].pins
    by_number = {pin.number: pin for pin in made}
    for pin in made:
        if pin.replaced_by is not None:
            assert by_number[pin.replaced_by].role == "user"
            assert pin.replaced_by > pin.number


@given(ROUNDS, st.integers(0, 200))
def test_the_same_rounds_give_the_same_pins(rounds: list[Round], limit: int) -> None:
    assert play(rounds, limit) == play(rounds, limit)


@given(MESSAGES)
def test_only_users_bind(messages: list[tuple[str, str]]) -> None:
    for pin in extend([], steps_of(messages)).pins:
        assert pin.role == "user" or pin.kind in (Kind.VALUE, Kind.FILE)
