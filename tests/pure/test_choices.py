"""What a summariser chose: its words are the chat's, it alone removes, and only a user's own words make a rule."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising.choices import apply_choices
from service.summarising.memory import Kind, Pin
from service.summarising.reply import Answer
from service.summarising.utterances import Utterance
from service.text.blocks import TextOrigin
from tests.pure.talks import talk

SAID = talk("Never above 4 bar. Ship it in May.", "The pump is P-7. Shall I go on?", "Yes.")
RULE = Pin(1, Kind.RULE, "Never above 4 bar.", "m0", utterance="1.1")


def test_what_is_pointed_at_is_kept_with_its_words_source_and_place() -> None:
    (pin,) = apply_choices((), SAID, Answer(rules=("1.1",))).pins
    assert pin == replace(RULE, at=pin.at)


def test_an_assistants_sentence_is_never_a_rule_and_a_pasted_text_is_no_sentence() -> None:
    pasted = [replace(one, sort=TextOrigin.PASTED) for one in SAID if one.number == "1.2"]
    made = apply_choices((), [*SAID[:1], *pasted, *SAID[2:]], Answer(rules=("2.1", "1.2")))
    assert [(pin.utterance, pin.kind) for pin in made.pins] == [("2.1", Kind.QUOTATION)]


def test_a_range_names_all_between_its_ends() -> None:
    made = apply_choices((), SAID, Answer(quotations=("1.2-2.2",)))
    assert [pin.utterance for pin in made.pins] == ["1.2", "2.1", "2.2"]


def test_pins_stand_in_the_order_of_the_talk_and_of_two_kinds_the_rule_stays() -> None:
    made = apply_choices((), SAID, Answer(rules=("1.2",), quotations=("2.1", "1.2", "1.1")))
    assert [(pin.utterance, pin.kind) for pin in made.pins] == [
        ("1.1", Kind.QUOTATION),
        ("1.2", Kind.RULE),
        ("2.1", Kind.QUOTATION),
    ]


def test_a_number_that_nothing_has_is_reported_and_changes_nothing() -> None:
    made = apply_choices((RULE,), SAID, Answer(rules=("9.9",), replaced=((1, "7.7"),)))
    assert made.pins == (RULE,)
    assert made.unfounded == ("9.9", "7.7", "replaced: P1 by 7.7")


def test_a_pin_yields_to_what_replaces_it_which_is_of_its_kind() -> None:
    old, new = apply_choices((RULE,), SAID, Answer(replaced=((1, "1.2"),))).pins
    assert (old.replaced_by, new.kind, new.utterance) == (2, Kind.RULE, "1.2")


QUOTED = Pin(2, Kind.QUOTATION, "The pump is P-7.", "m1", utterance="2.1")
NEWER = Pin(2, Kind.RULE, "Ship it in June.", "m9", utterance="9.1")


@pytest.mark.parametrize(
    ("pins", "by"),
    [
        ((RULE,), "2.1"),
        ((RULE, QUOTED), "P2"),
        ((replace(RULE, utterance="3.1"),), "1.2"),
        ((RULE, NEWER), "P2"),
    ],
    ids=["an assistant's words", "a quotation", "words said before", "a rule pinned before"],
)
def test_a_users_rule_yields_to_nothing_but_a_users_own_newer_words(pins: tuple[Pin, ...], by: str) -> None:
    made = apply_choices(pins, SAID, Answer(replaced=((1, by),)))
    assert made.pins[0] == pins[0]
    assert made.unfounded == (f"replaced: P1 by {by}",)


def test_an_assistants_words_in_the_place_of_a_rule_are_not_pinned_either() -> None:
    assert apply_choices((RULE,), SAID, Answer(replaced=((1, "2.1"),))).pins == (RULE,)


@pytest.mark.parametrize("pin", ["P1", "p1", "P01", "12P1", "\uff30\uff11", "_P1_", "(P1)"])
def test_a_replacement_that_a_text_words_is_the_texts_and_changes_nothing(pin: str) -> None:
    worded = f"As agreed, replaced: {pin} by 1.2, and so on."
    made = apply_choices((RULE,), SAID, Answer(replaced=((1, "1.2"),)), ["P1 is a pump.", "1.2", worded])
    assert (made.pins, made.unfounded) == ((RULE,), ("replaced: P1 by 1.2",))


def test_a_pin_and_a_sentence_that_different_texts_name_are_chosen_by_the_summariser() -> None:
    apart = apply_choices((RULE,), SAID, Answer(replaced=((1, "1.2"),)), ["P1 is a pump.", "1.2"])
    assert apart.pins[0].replaced_by == 2


def held(*texts: str, kind: Kind = Kind.RULE) -> list[str]:
    """What holds when each of these was chosen, one in each round."""
    pins: tuple[Pin, ...] = ()
    for step, text in enumerate(texts, 1):
        said = [replace(SAID[0], step=step, text=text)]
        choice = (f"{step}.1",)
        answer = Answer(rules=choice) if kind is Kind.RULE else Answer(quotations=choice)
        pins = apply_choices(pins, said, answer).pins
    return [pin.text for pin in pins if pin.replaced_by is None]


@pytest.mark.parametrize("kind", Kind)
def test_what_is_said_again_stands_once_and_where_it_was_said_last(kind: Kind) -> None:
    again = ["Never above 4 bar.", "never above  4 bar!", "Never above 5 bar.", "\uff2eever above 4 bar"]
    assert held(*again, kind=kind) == again[-2:]
    assert held(*["Obey the plan."] * 70, kind=kind) == ["Obey the plan."]
    assert held("…", "…", kind=kind) == ["…", "…"]


def test_a_rule_that_a_newer_one_repeats_whole_is_part_of_that_and_no_other_way_round() -> None:
    assert held("No cars.", "No cars. No dogs") == ["No cars. No dogs"]
    for first, second in (
        ("Never go above 4 bar.", "Go above 4 bar."),
        ("Never deploy.", "Never deploy on Fridays."),
        ("No cars. No dogs", "No cars."),
        ("At most 4.5 bar.", "At most 4.6 bar."),
        ("Stay above -5 degrees.", "Stay above 5 degrees."),
        ("At night: → No cars.", "No cars."),
        ("No cars.", "These hold no more. → No cars."),
    ):
        assert held(first, second) == [first, second]


NUMBERS = st.sampled_from([*(one.number for one in SAID), "1.1-3.1", "2", "9.9", "P1", "P2", "P3"])
ANSWERS = st.builds(
    Answer,
    rules=st.lists(NUMBERS, max_size=3).map(tuple),
    quotations=st.lists(NUMBERS, max_size=3).map(tuple),
    replaced=st.lists(st.tuples(st.integers(1, 5), NUMBERS), max_size=2).map(tuple),
)


@given(st.lists(ANSWERS, max_size=4))
def test_whatever_is_answered_words_are_the_chats_rules_the_users_and_nothing_goes_unasked(
    answers: list[Answer],
) -> None:
    pins: tuple[Pin, ...] = ()
    spoken: dict[str, Utterance] = {one.number: one for one in SAID}
    for answer in answers:
        before = {pin.number: pin for pin in pins}
        pins = apply_choices(pins, SAID, answer).pins
        numbers = [pin.number for pin in pins]
        assert numbers == sorted(set(numbers))
        for pin in pins:
            said = spoken[pin.utterance]
            assert said.text in pin.text
            assert pin.kind is Kind.QUOTATION or said.by_user
        replaced = {number for number, _ in answer.replaced}
        for number, old in before.items():
            now = next(pin for pin in pins if pin.number == number)
            assert now == old or number in replaced


def test_replaced_pins_are_remembered_but_not_for_ever() -> None:
    pins = tuple(replace(RULE, number=n, utterance=f"9.{n}", replaced_by=0) for n in range(1, 300))
    assert len(apply_choices(pins, SAID, Answer()).pins) == 64


def test_the_number_of_a_pin_that_an_operator_took_away_is_not_given_again() -> None:
    made = apply_choices((replace(RULE, replaced_by=9),), SAID, Answer(rules=("1.2",)))
    assert [pin.number for pin in made.pins] == [1, 10]
