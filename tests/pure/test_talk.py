"""Which utterances stand in a summary when not all of them can."""

from hypothesis import given
from hypothesis import strategies as st

from service.summarising.kept import talk as selection
from service.summarising.kept.talk import chosen, cost, ranked
from service.summarising.utterances import Utterance
from tests.pure.talks import talk

PUMPS = talk(
    "The pump station in the harbour has to be mended before the 14th of June.",
    "I understand. Pumps are machines that move fluids. Many kinds of pumps are in use all over the world.",
    "The part number is QX-9931 and the supplier is Lindqvist.",
    "Thank you for telling me. It is a pleasure to help with such a thing at any time of the day.",
    "Oh, I see, so do as we go on, it is all fine by me and we can be at it.",
)


LINE = 4
"""Tokens of the line that a step has."""


def price(told: list[Utterance]) -> int:
    return sum(map(cost, told)) + LINE * len({one.step for one in told})


def texts(room: int) -> list[str]:
    return [one.text for one in chosen(PUMPS, room)]


def test_all_of_it_stands_when_there_is_room_for_all() -> None:
    assert chosen(PUMPS, price(PUMPS)) == PUMPS


def test_the_users_own_words_come_before_an_answer() -> None:
    users = [one for one in PUMPS if one.by_user]
    assert chosen(PUMPS, price(users)) == users


def test_what_a_user_pasted_is_told_before_an_answer_and_after_the_users_words() -> None:
    pasted = "What is wrong here?\n\n```python\n" + "total = price * count\nprint(total)\n" * 9 + "```"
    said = talk(pasted, "The discount of 12 % is missing on line 40 and on line 52.")
    words, code = said[0], said[1]

    assert chosen(said, price([words, code])) == [words, code]
    assert chosen(said, price([words])) == [words]


def test_values_come_before_chatter() -> None:
    kept = texts(45)
    assert any("QX-9931" in one for one in kept)
    assert not any(one.startswith("Oh, I see") for one in kept)


def test_what_stands_elsewhere_need_not_be_told_again() -> None:
    first = ranked(PUMPS)[0]
    assert ranked(PUMPS, [first.text])[0] != first


def test_of_equal_utterances_the_older_shrink_first() -> None:
    told = talk(*(f"The {word} valve of the boiler is leaking." for word in ("red", "odd", "blue", "even", "new")))
    users = [one for one in told if one.by_user]
    assert chosen(users, price(users[:1])) == [users[-1]]


WORDS = ["pump", "valve", "QX-9931", "the", "must", "14:30", "请修好", "泵站", "Berlin", "и", "насос"]
TALKS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join), max_size=12)


@given(TALKS, st.integers(0, 200))
def test_what_is_chosen_keeps_its_order_and_fits(told: list[str], room: int) -> None:
    whole = talk(*told)
    kept = chosen(whole, room)
    assert price(kept) <= room
    assert [one for one in whole if one in kept] == kept
    assert kept == selection.chosen(whole, room)
