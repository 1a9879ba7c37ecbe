"""Which of the talk stands when not all can, and how it is shown."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising import talk
from service.text.blocks import Sort
from tests.pure import talks


def test_the_talk_stands_in_its_order_with_its_speakers_and_the_day_where_it_changes() -> None:
    said = [
        replace(one, at=day * 86_400) for one, day in zip(talks.talk("One.", "Two.", "Three."), (1, 1, 2), strict=True)
    ]
    assert talk.lines(said) == ("(1970-01-02)", "user: One.", "assistant: Two.", "(1970-01-03)", "user: Three.")


def test_what_is_left_out_between_two_sentences_is_marked() -> None:
    first, _, last = talks.talk("It is one. It is two. It is three.")
    assert talk.lines([first, last]) == ("user: It is one. … It is three.",)


def test_the_same_words_count_most_from_a_user_and_more_where_an_answer_begins_than_further_on() -> None:
    words = "The train costs 12,847 EUR."
    _, opening, _, _, further, own = talks.talk("Hm.", f"{words} Good. Fine. {words}", words)
    room = talk.cost(own) + 6
    assert talk.fitted([opening, further, own, replace(own, sort=Sort.PASTED, place=9)], room) == [own]
    assert talk.fitted([replace(own, text="Does the train cost 12,847 EUR?"), own], room) == [own]
    assert talk.fitted([opening, further], room) == [opening]


def test_the_head_of_a_list_stands_once_with_its_items() -> None:
    _, *listed = talks.talk("What does it cost?", "These are the prices.\n\n- crane: 12,847 EUR\n- ship: 9,312 EUR")
    assert talk.lines(listed[1:]) == ("assistant: These are the prices. → crane: 12,847 EUR ship: 9,312 EUR",)


@pytest.mark.parametrize(
    ("rule", "remark"),
    [
        ("The invoices must carry a stamp.", "The invoices carry a nice stamp."),
        ("写真は必ず横向きで撮影する。", "写真は大体横向きで撮影する。"),
        ("Die Fenster bleiben immer offen.", "Die Fenster bleiben heute offen."),
    ],
)
def test_what_lays_something_down_comes_before_a_remark(rule: str, remark: str) -> None:
    said = talks.talk(rule, "Fine.", remark)
    users = [one for one in said if one.by_user]
    assert talk.fitted(users, max(map(talk.cost, users)) + 8) == [users[0]]


def test_values_come_before_chatter_and_what_stands_elsewhere_need_not_be_said_again() -> None:
    said = talks.talk("That is really very nice of you indeed. The pump P-7 stays below 4.5 bar.")
    assert talk.fitted(said, 24) == [said[1]]
    assert talk.fitted(said, 24, ["The pump P-7 stays below 4.5 bar."]) == [said[0]]


@given(st.lists(st.text("abc 12.?", min_size=2, max_size=60), max_size=8), st.integers(0, 200))
def test_what_is_chosen_keeps_its_order_and_fits(texts: list[str], room: int) -> None:
    said = talks.talk(*texts)
    kept = talk.fitted(said, room)
    assert kept == [one for one in said if one in kept]
    assert talk.size(talk.lines(kept)) <= room
