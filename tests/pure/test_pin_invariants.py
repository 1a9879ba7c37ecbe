"""Invariants of the pins over rounds of random talk and random answers."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service.summarising.kept import pins
from service.summarising.kept.pins import Merged
from service.summarising.kept.talk import told
from service.summarising.memory import Kind, Pin
from service.summarising.reply import answer
from service.summarising.reply.answer import Answer, Keep, Replaced
from service.summarising.utterances import Speaker, Utterance
from service.text.blocks import Sort

RULES = (Kind.CONSTRAINT, Kind.DECISION, Kind.PREFERENCE, Kind.GOAL)
PROSE = st.sampled_from(
    [
        "We must keep it below 500 EUR.",
        "The budget is now 600 EUR.",
        "The budget is 700 EUR instead of 600 EUR.",
        "Let's use Redis instead.",
        "Shall I go on?",
        "Yes.",
        "Actually, forget the 17 boxes.",
        "My goal is 12,847 visitors a day.",
        "Das Budget darf 600 Euro nie überschreiten.",
        "预算不能超过五百元。",
        "👍",
        "Thanks!",
    ]
)
NUMBERS = st.builds("{}.{}".format, st.integers(1, 9), st.integers(1, 3)) | st.sampled_from(
    ["P1", "P2", "P5", "1", "4", "1.1-3.2", "9999.9"]
)
WORDS = st.just("") | PROSE | st.text(max_size=30)
KEEPS = st.builds(
    Keep,
    st.lists(st.sampled_from(Kind), min_size=1, max_size=2).map(tuple),
    st.lists(NUMBERS, max_size=3).map(tuple),
    WORDS,
)
REPLACED = st.builds(Replaced, st.integers(0, 9), st.lists(NUMBERS, max_size=2).map(tuple), WORDS)
ANSWERS = st.builds(
    Answer,
    keeps=st.lists(KEEPS, max_size=4).map(tuple),
    replaced=st.lists(REPLACED, max_size=3).map(tuple),
    drops=st.lists(st.integers(0, 9), max_size=2).map(tuple),
)
SAID = st.tuples(st.sampled_from(Speaker), PROSE, st.sampled_from([Sort.OWN, Sort.OWN, Sort.PASTED]))
ROUNDS = st.lists(st.tuples(st.lists(SAID, max_size=5), ANSWERS), min_size=1, max_size=4)
Round = tuple[list[tuple[Speaker, str, Sort]], Answer]


def played(rounds: Sequence[Round]) -> list[tuple[list[Utterance], Answer, Merged]]:
    """What was said up to each round, its answer, and the pins after it."""
    found: list[tuple[list[Utterance], Answer, Merged]] = []
    heard: list[Utterance] = []
    before: tuple[Pin, ...] = ()
    step = 0
    for messages, given_answer in rounds:
        new = []
        for speaker, text, sort in messages:
            step += 1
            new.append(Utterance(step, 1, speaker, text, f"m{step}", sort=sort))
        heard = [*heard, *new]
        merged = pins.merge(before, new, given_answer)
        found.append((heard, given_answer, merged))
        before = merged.pins
    return found


@given(ROUNDS)
def test_a_pin_has_the_words_of_its_sentence(rounds: list[Round]) -> None:
    for heard, _, merged in played(rounds):
        said = {one.number: one for one in heard}
        for pin in merged.pins:
            one = said[pin.utterance]
            assert (pin.source, pin.speaker) == (one.source, one.speaker)
            assert (
                "".join(filter(str.isalnum, pin.text)).casefold() == "".join(filter(str.isalnum, told(one))).casefold()
            )


@given(ROUNDS)
def test_only_users_own_words_make_rules(rounds: list[Round]) -> None:
    for heard, _, merged in played(rounds):
        said = {one.number: one for one in heard}
        assert all(said[pin.utterance].by_user for pin in merged.pins if pin.kind in RULES)


@given(ROUNDS)
def test_nothing_goes_unless_the_answer_asks_for_it(rounds: list[Round]) -> None:
    for (_, _, earlier), (_, given_answer, later) in pairwise(played(rounds)):
        asked = {*given_answer.drops, *(one.number for one in given_answer.replaced)}
        held = {pin.number: pin for pin in pins.shown(later.pins)}
        for pin in pins.shown(earlier.pins):
            assert pin.number in held or pin.number in asked
            assert pin.number not in held or held[pin.number].text == pin.text


@given(ROUNDS)
def test_numbers_are_unique_and_in_order(rounds: list[Round]) -> None:
    for _, _, merged in played(rounds):
        numbers = [pin.number for pin in merged.pins]
        assert numbers == sorted(set(numbers))


@given(ROUNDS)
def test_a_number_never_means_another_sentence(rounds: list[Round]) -> None:
    texts: dict[int, str] = {}
    for _, _, merged in played(rounds):
        for pin in merged.pins:
            assert texts.setdefault(pin.number, pin.text) == pin.text


@given(ROUNDS)
def test_a_users_rule_yields_to_a_users_own_words_only(rounds: list[Round]) -> None:
    for heard, _, merged in played(rounds):
        said = {one.number: one for one in heard}
        by_number = {pin.number: pin for pin in merged.pins}
        for pin in merged.pins:
            if pin.kind in RULES and pin.replaced_by in by_number and pin.replaced_by:
                assert said[by_number[pin.replaced_by].utterance].by_user


@given(ROUNDS, st.text(max_size=200))
def test_whatever_a_model_writes_the_pins_can_be_made(rounds: list[Round], text: str) -> None:
    heard, _, merged = played(rounds)[-1]
    after = pins.merge(merged.pins, heard, answer.parse(text)).pins
    assert len({pin.number for pin in after}) == len(after)
