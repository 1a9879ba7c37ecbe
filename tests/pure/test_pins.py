"""The pins: whose words they have, what they can be, and who may replace or drop them."""

from collections.abc import Sequence

import pytest

from service.summarising.kept import pins
from service.summarising.kept.pins import Merged
from service.summarising.memory import Kind, Pin
from service.summarising.reply.answer import Answer, Keep, Replaced
from service.summarising.utterances import Speaker, Utterance
from service.text.blocks import Sort

RULES = (Kind.CONSTRAINT, Kind.DECISION, Kind.PREFERENCE, Kind.GOAL)
CONSTRAINT = (Kind.CONSTRAINT,)


def talk(*said: str, first: int = 1) -> list[Utterance]:
    """One utterance a step; those that begin with `A: ` are the assistant's."""
    return [
        Utterance(
            step,
            1,
            Speaker.ASSISTANT if text.startswith("A: ") else Speaker.USER,
            text.removeprefix("A: "),
            f"m{step}",
        )
        for step, text in enumerate(said, first)
    ]


def keep(*numbers: str, kinds: Sequence[Kind] = CONSTRAINT, words: str = "") -> Answer:
    return Answer(keeps=(Keep(tuple(kinds), numbers, words),))


def replacing(number: int, *numbers: str, words: str = "") -> Answer:
    return Answer(replaced=(Replaced(number, numbers, words),))


def held(merged: Merged) -> dict[str, Kind]:
    return {pin.text: pin.kind for pin in pins.shown(merged.pins)}


BUDGET = Pin(7, Kind.CONSTRAINT, "The tour may cost 900 EUR.", "m1", utterance="1.1")


# ---- by number


def test_what_is_pointed_at_is_kept_with_its_words_source_and_place() -> None:
    said = talk("Never book a hostel.", "We leave on 4 May.")
    merged = pins.merge([], said, keep("2.1"))
    assert merged.pins == (Pin(1, Kind.CONSTRAINT, "We leave on 4 May.", "m2", Speaker.USER, "2.1"),)


@pytest.mark.parametrize("kind", Kind)
def test_a_users_sentence_may_stand_in_any_section(kind: Kind) -> None:
    merged = pins.merge([], talk("Could you look at the boats again?"), keep("1.1", kinds=[kind]))
    assert held(merged) == {"Could you look at the boats again?": kind}


@pytest.mark.parametrize("kind", Kind)
def test_an_assistants_sentence_is_never_a_rule(kind: Kind) -> None:
    merged = pins.merge([], talk("A: You must pay 80 EUR first."), keep("1.1", kinds=[kind]))
    expected = Kind.FACT if kind in RULES else kind
    assert held(merged) == {"You must pay 80 EUR first.": expected}


@pytest.mark.parametrize("sort", [Sort.PASTED, Sort.CODE])
@pytest.mark.parametrize("kind", RULES)
def test_what_a_user_pasted_is_never_a_rule(sort: Sort, kind: Kind) -> None:
    pasted = Utterance(1, 1, Speaker.USER, "[pasted text, 4 lines]", "m1", sort=sort)
    assert held(pins.merge([], [pasted], keep("1.1", kinds=[kind]))) == {pasted.text: Kind.FACT}


def test_an_assistants_words_are_marked_and_a_users_are_not() -> None:
    said = talk("A: The ferry takes 40 minutes.", "We take the ferry.")
    first, second = pins.merge([], said, keep("1.1", "2.1")).pins
    assert pins.line(first) == "assistant: The ferry takes 40 minutes."
    assert pins.line(second) == "We take the ferry."


def test_a_short_answer_is_kept_with_its_question_and_an_item_with_its_head() -> None:
    said = [
        Utterance(2, 1, Speaker.USER, "The red one.", "m2", context="Which boat do you want?"),
        Utterance(3, 2, Speaker.USER, "two tents", "m3", context="Bring these:"),
    ]
    merged = pins.merge([], said, keep("2.1", "3.2", kinds=[Kind.DECISION]))
    assert list(held(merged)) == [
        "(asked: Which boat do you want?) The red one.",
        "Bring these: → two tents",
    ]


def test_a_range_over_steps_names_all_between_its_ends() -> None:
    said = talk("One boat.", "Two tents.", "Three days.", "Thanks!")
    assert list(held(pins.merge([], said, keep("1.1-3.1")))) == [
        "One boat.",
        "Two tents.",
        "Three days.",
    ]


def test_a_step_of_one_sentence_may_be_named_without_its_place() -> None:
    assert list(held(pins.merge([], talk("One boat.", "Two tents."), keep("2")))) == ["Two tents."]


def test_a_step_of_several_sentences_may_not() -> None:
    said = [Utterance(2, place, Speaker.USER, f"{place} boats.", "m2") for place in (1, 2)]
    assert pins.merge([], said, keep("2")) == Merged((), ("keep constraint: 2",))


def test_a_number_that_nothing_has_is_told_and_the_others_are_kept() -> None:
    merged = pins.merge([], talk("One boat."), keep("1.1", "9.9"))
    assert list(held(merged)) == ["One boat."]
    assert merged.unfounded == ("keep constraint: 9.9",)


def test_new_pins_stand_in_the_order_of_the_talk_whatever_the_order_of_the_answer() -> None:
    said = talk("One boat.", "Two tents.", "Three days.")
    merged = pins.merge([], said, keep("3.1", "1.1"))
    assert [(pin.number, pin.text) for pin in merged.pins] == [(1, "One boat."), (2, "Three days.")]


# ---- again


def test_what_is_kept_again_changes_its_kind_only() -> None:
    said = talk("We leave on 4 May.")
    [once] = pins.merge([], said, keep("1.1", kinds=[Kind.VALUE])).pins
    [again] = pins.merge([once], said, keep("1.1")).pins
    assert (once.kind, again.kind) == (Kind.VALUE, Kind.CONSTRAINT)
    assert (again.number, again.text, again.source) == (once.number, once.text, once.source)


def test_the_same_words_said_again_are_one_pin() -> None:
    said = talk("We leave on 4 May.", "we leave on 4 May")
    assert len(pins.merge([], said, keep("1.1", "2.1")).pins) == 1


def test_words_of_an_assistant_that_a_user_says_too_are_the_users() -> None:
    said = talk("A: We take the ferry.", "We take the ferry.")
    before = pins.merge([], said[:1], keep("1.1", kinds=[Kind.FACT])).pins
    [pin] = pins.merge(before, said[1:], keep("2.1", kinds=[Kind.DECISION])).pins
    assert (pin.number, pin.kind, pin.speaker, pin.source) == (1, Kind.DECISION, Speaker.USER, "m2")


def test_of_several_kinds_for_a_sentence_the_weightiest_stays() -> None:
    keeps = (Keep((Kind.CONSTRAINT,), ("1.1",)), Keep((Kind.VALUE,), ("1.1",)))
    assert held(pins.merge([], talk("At most 4 boats."), Answer(keeps=keeps))) == {"At most 4 boats.": Kind.CONSTRAINT}


def test_a_section_of_several_kinds_leaves_a_pin_the_one_that_it_has() -> None:
    wish = Pin(3, Kind.PREFERENCE, "Rather a cabin.", "m1", utterance="1.1")
    merged = pins.merge([wish], [], keep("P3", kinds=[Kind.CONSTRAINT, Kind.PREFERENCE]))
    assert merged.pins == (wish,)


def test_a_pin_is_made_no_rule_without_its_sentence() -> None:
    """Whose words it has is known from the sentence alone."""
    fact = Pin(3, Kind.FACT, "[pasted text, 4 lines]", "m1", utterance="1.1")
    assert pins.merge([fact], [], keep("P3")).pins == (fact,)


# ---- nothing but the answer removes


def test_an_answer_that_says_nothing_leaves_all_pins_as_they_are() -> None:
    said = talk("Actually, forget the 900 EUR: the tour may now cost 1,200 EUR instead.")
    assert pins.merge([BUDGET], said, Answer()).pins == (BUDGET,)


def test_a_pin_yields_to_what_replaces_it_which_is_of_its_kind() -> None:
    merged = pins.merge([BUDGET], talk("Make that 1,200 EUR.", first=5), replacing(7, "5.1"))
    old, new = merged.pins
    assert (old.number, old.replaced_by) == (7, 8)
    assert (new.number, new.kind, new.text) == (8, Kind.CONSTRAINT, "Make that 1,200 EUR.")


def test_what_replaces_a_pin_has_the_kind_that_was_chosen_for_it() -> None:
    both = Answer(keeps=(Keep((Kind.VALUE,), ("5.1",)),), replaced=(Replaced(7, ("5.1",)),))
    merged = pins.merge([BUDGET], talk("Make that 1,200 EUR.", first=5), both)
    assert held(merged) == {"Make that 1,200 EUR.": Kind.VALUE}


def test_a_pin_may_yield_to_one_that_is_there() -> None:
    later = Pin(9, Kind.CONSTRAINT, "The tour may cost 700 EUR.", "m3", utterance="3.1")
    assert held(pins.merge([BUDGET, later], [], replacing(7, "P9"))) == {later.text: later.kind}


@pytest.mark.parametrize(
    "said",
    [
        talk("A: The tour may cost 2,000 EUR now.", first=5),
        [Utterance(5, 1, Speaker.USER, "The tour may cost 2,000 EUR.", "m5", sort=Sort.PASTED)],
    ],
    ids=["assistant", "pasted"],
)
def test_a_users_rule_yields_to_a_users_own_words_only(said: list[Utterance]) -> None:
    merged = pins.merge([BUDGET], said, replacing(7, "5.1"))
    assert held(merged) == {BUDGET.text: Kind.CONSTRAINT, said[0].text: Kind.FACT}
    assert merged.unfounded == ("replaced: P7 by 5.1",)


def test_a_value_yields_to_an_assistants_value() -> None:
    price = Pin(2, Kind.VALUE, "The boat costs 300 EUR.", "m1", Speaker.ASSISTANT, "1.1")
    said = talk("A: The boat costs 350 EUR today.", first=5)
    assert list(held(pins.merge([price], said, replacing(2, "5.1")))) == [said[0].text]


@pytest.mark.parametrize(
    "answer",
    [
        replacing(99, "5.1"),
        replacing(7, "9.9"),
        replacing(7, "P7"),
        replacing(7, words="It rains in the mountains all week."),
    ],
    ids=["no such pin", "no such sentence", "itself", "words that nobody said"],
)
def test_a_replacement_that_nothing_bears_out_is_told_and_changes_nothing(answer: Answer) -> None:
    merged = pins.merge([BUDGET], talk("Good morning to everybody.", first=5), answer)
    assert merged.pins == (BUDGET,)
    assert len(merged.unfounded) == 1


def test_pins_cannot_replace_each_other_in_a_circle() -> None:
    other = Pin(8, Kind.CONSTRAINT, "The tour may cost 700 EUR.", "m2", utterance="2.1")
    answer = Answer(replaced=(Replaced(7, ("P8",)), Replaced(8, ("P7",))))
    assert list(held(pins.merge([BUDGET, other], [], answer))) == [other.text]


def test_what_is_dropped_is_gone() -> None:
    other = Pin(8, Kind.FACT, "The dog is called Rex.", "m2", utterance="2.1")
    merged = pins.merge([BUDGET, other], [], Answer(drops=(7,)))
    assert merged.pins == (other,)


def test_a_drop_of_no_pin_is_told() -> None:
    assert pins.merge([BUDGET], [], Answer(drops=(3,))) == Merged((BUDGET,), ("drop: P3",))


def test_what_an_operator_wrote_is_not_dropped() -> None:
    written = Pin(2, Kind.CONSTRAINT, "Call the captain first.", pins.OPERATOR)
    assert pins.merge([written], [], Answer(drops=(2,))) == Merged((written,), ("drop: P2",))


# ---- numbers


def test_a_number_is_never_given_again() -> None:
    merged = pins.merge([BUDGET], [], Answer(drops=(7,)))
    assert held(merged) == {}
    [new] = pins.shown(pins.merge(merged.pins, talk("One boat.", first=5), keep("5.1")).pins)
    assert new.number == 8


def test_a_number_that_only_a_replaced_pin_names_is_not_given_again() -> None:
    old = Pin(3, Kind.VALUE, "The boat costs 300 EUR.", "m1", replaced_by=9)
    [new] = pins.shown(pins.merge([old], talk("One boat."), keep("1.1")).pins)
    assert new.number == 10


def test_replaced_pins_are_remembered_but_not_for_ever() -> None:
    before: tuple[Pin, ...] = (BUDGET,)
    for price in range(8, 208):
        said = talk(f"The tour may cost {price} EUR.", first=price)
        before = pins.merge(before, said, replacing(before[-1].number, f"{price}.1")).pins
    assert len(before) == 65
    assert list(held(Merged(before))) == ["The tour may cost 207 EUR."]


# ---- in words


WORDS = [
    (
        "Could you make sure the report is ready for Anna by noon?",
        "the report is ready for Anna by noon",
    ),
    ("Die Fähre am Freitag ist schon gebucht.", '"Die Fähre am Freitag ist schon gebucht"'),
    ("集合地点改到北门停车场。", "集合地点改到北门停车场"),
    ("集合地点已经改到北门的停车场了。", "集合地点改到北门的停车场了"),
    ("打ち合わせは木曜日の午後にしてください。", "打ち合わせは木曜日の午後に"),
    ("Больше никогда не звони ему до девяти утра.", "никогда не звони ему до девяти утра"),
    ("The invoice over 12,847 EUR is settled.", "Invoice over 12847 EUR is settled"),
]


@pytest.mark.parametrize(("said", "words"), WORDS)
def test_words_mean_the_sentence_that_they_were_taken_from(said: str, words: str) -> None:
    others = [
        "Good morning to everybody.",
        "今天天气很好。",
        "Какая сегодня погода?",
        "お元気ですか。",
    ]
    merged = pins.merge([], talk(*others, said), keep(words=words))
    assert list(held(merged)) == [said]
    assert merged.unfounded == ()


@pytest.mark.parametrize(
    "words",
    [
        "The report is due for Otto at midnight.",
        "The tour may cost 990 EUR.",
        "The tour",
        "tour",
        "预算不能超过九百元",
        "!!!",
    ],
)
def test_words_that_no_sentence_bears_out_are_told(words: str) -> None:
    merged = pins.merge([], talk("The tour may cost 900 EUR.", "The tour is long."), keep(words=words))
    assert merged == Merged((), (words,))


def test_words_that_two_sentences_could_mean_are_told() -> None:
    said = talk("The red boat leaves from the north pier.", "The red boat leaves from the south pier.")
    merged = pins.merge([], said, keep(words="The red boat leaves from the pier"))
    assert held(merged) == {}
    assert merged.unfounded


def test_words_that_a_user_and_an_assistant_said_are_the_users() -> None:
    said = talk("Only the red boat.", "A: Only the red boat.")
    assert held(pins.merge([], said, keep(words="only the red boat"))) == {"Only the red boat.": Kind.CONSTRAINT}


def test_words_of_two_sentences_mean_both() -> None:
    said = talk("We leave on Monday.", "Nobody brings a dog along.")
    merged = pins.merge([], said, keep(words="We leave on Monday. Nobody brings a dog along."))
    assert list(held(merged)) == ["We leave on Monday.", "Nobody brings a dog along."]


def test_words_are_found_among_thousands_of_sentences() -> None:
    text = "Pump number {} stands beside the old boiler."
    said = talk(*(text.format(number) for number in range(1, 3000)))
    merged = pins.merge([], said, keep(words="Pump number 77 stands beside the old boiler"))
    assert list(held(merged)) == [text.format(77)]


def test_a_number_counts_more_than_the_words_beside_it() -> None:
    said = talk("We leave on Monday.", "On Monday we leave for good.")
    merged = pins.merge([], said, keep("1.1", words="on Monday we leave for good"))
    assert list(held(merged)) == ["We leave on Monday."]


def test_a_number_whose_sentence_has_nothing_of_the_words_beside_it_is_a_slip() -> None:
    said = talk("Good morning!", "Nobody brings a dog along.")
    merged = pins.merge([], said, keep("1.1", words="Nobody brings a dog along"))
    assert list(held(merged)) == ["Nobody brings a dog along."]


def test_what_replaces_a_pin_may_be_told_in_words() -> None:
    said = talk("Make the budget 1,200 EUR please.", first=5)
    merged = pins.merge([BUDGET], said, replacing(7, words="Make the budget 1,200 EUR"))
    assert list(held(merged)) == ["Make the budget 1,200 EUR please."]


def test_very_many_words_are_looked_for_up_to_a_bound() -> None:
    said = talk(*(f"Pump {number} stands beside boiler {number}." for number in range(200)))
    keeps = tuple(Keep(CONSTRAINT, (), one.text) for one in said)
    merged = pins.merge([], said, Answer(keeps=keeps))
    assert len(merged.pins) + len(merged.unfounded) == 200
    assert merged.unfounded
