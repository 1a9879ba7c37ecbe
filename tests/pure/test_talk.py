"""Which of the talk stands when not all can, and how it is shown."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising import talk
from tests.pure import talks


def test_the_talk_stands_in_its_order_with_its_speakers_and_the_day_where_it_changes() -> None:
    said = [
        replace(one, at=day * 86_400) for one, day in zip(talks.talk("One.", "Two.", "Three."), (1, 1, 2), strict=True)
    ]
    assert talk.write_lines(said) == ("(1970-01-02)", "user: One.", "assistant: Two.", "(1970-01-03)", "user: Three.")


def test_what_is_left_out_between_two_sentences_is_marked() -> None:
    first, _, last = talks.talk("It is one. It is two. It is three.")
    assert talk.write_lines([first, last]) == ("user: It is one. … It is three.",)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Is it so?", "It is 9 EUR.", "It is a fine day."], "It is a fine day."),  # a user before an answer
        (["", "It is a train. It is a ship."], "It is a train."),  # how an answer begins
        (["It is a fine day.", "", "It is a dull day."], "It is a dull day."),  # what was said last
        (["It is 9 EUR.", "", "It is a fine day."], "It is 9 EUR."),  # a value
        (["", "It is 9 EUR.", "", "It is a ship. It is 7 EUR."], "It is a ship."),  # the newest
    ],
)
def test_with_room_for_one_sentence_the_more_important_one_stands(texts: list[str], expected: str) -> None:
    (one,) = talk.choose(talks.talk(*texts), 12)
    assert one.text == expected


def test_each_message_has_one_sentence_before_any_has_a_second() -> None:
    long = " ".join(f"The {thing} of the old house is quite blue again." for thing in ("door", "floor", "wall") * 3)
    said = talks.talk("The roof is red.", "Yes.", long)
    assert next(one.text for one in talk.choose(said, 36) if one.by_user) == "The roof is red."


def test_a_short_message_stands_as_a_whole() -> None:
    said = talks.talk("It is a dull day. It is 9 EUR.", "", "Take the train then. You must be there at 7.", "", "Hm.")
    assert [one.step for one in talk.choose(said, 24)] == [3, 3]


def test_the_head_of_a_list_stands_once_with_its_items() -> None:
    _, *listed = talks.talk("What does it cost?", "These are the prices.\n\n- crane: 12,847 EUR\n- ship: 9,312 EUR")
    assert talk.write_lines(listed[1:]) == ("assistant: These are the prices. → crane: 12,847 EUR ship: 9,312 EUR",)


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
    assert talk.choose(users, talk.count_tokens(talk.write_lines(users[:1])) + 2) == [users[0]]


@given(st.lists(st.text("abc 12.?", min_size=2, max_size=60), max_size=8), st.integers(0, 200))
def test_what_is_chosen_keeps_its_order_and_fits(texts: list[str], room: int) -> None:
    said = talks.talk(*texts)
    kept = talk.choose(said, room)
    assert kept == [one for one in said if one in kept]
    assert talk.count_tokens(talk.write_lines(kept)) <= room
