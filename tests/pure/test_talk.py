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


def test_a_question_stands_once_before_its_answer() -> None:
    said = talks.talk("Go.", "Shall I take the red one?", "Yes.")
    assert talk.lines(said)[1:] == ("assistant: Shall I take the red one?", "user: Yes.")
    assert talk.lines(said[-1:]) == ("user: (asked: Shall I take the red one?) Yes.",)


def test_words_of_others_stand_in_marks_that_nothing_in_them_closes() -> None:
    (one,) = (replace(one, sort=Sort.DOCUMENT, text="He said “go”.") for one in talks.talk("x."))
    assert talk.told(one) == '(pasted) “He said "go".”'


def test_the_users_own_words_come_before_what_they_pasted_and_both_before_an_answer() -> None:
    said = talks.talk("We meet at the station on Monday.", "Yes. Good. The train of Tuesday costs 12,847 EUR.")
    pasted = replace(said[0], sort=Sort.PASTED, text="[pasted text, 40 lines]", place=9)
    everything = [said[0], pasted, said[-1]]
    first = talk.cost(said[0]) + 10
    assert talk.fitted(everything, first) == [said[0]]
    assert talk.fitted(everything, first + talk.cost(pasted)) == [said[0], pasted]


def test_how_an_answer_begins_counts_as_much_as_what_users_say_and_the_rest_of_it_less() -> None:
    said = talks.talk("Well, well, my dear old friend.", "The crane costs 12,847 EUR. Good. The ship costs 9,312 EUR.")
    remark, opening, _, rest = said
    assert talk.fitted(said, talk.cost(opening) + 6) == [opening]
    assert talk.fitted([remark, rest], talk.cost(rest) + 6) == [remark]


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


def test_of_equal_utterances_the_older_shrink_first() -> None:
    said = [one for one in talks.talk("Use the blue door.", "Fine.", "Take the grey lamp.") if one.by_user]
    assert talk.fitted(said, 14) == [said[1]]


def test_what_is_not_worth_its_tokens_is_left_out_even_where_there_is_room() -> None:
    said = talks.talk("Yes.", "The pump P-7 stays below 4.5 bar.")
    assert [one.text for one in talk.fitted(said, 500, least=0.2)] == [said[1].text]


@given(st.lists(st.text("abc 12.?", min_size=2, max_size=60), max_size=8), st.integers(0, 200))
def test_what_is_chosen_keeps_its_order_and_fits(texts: list[str], room: int) -> None:
    said = talks.talk(*texts)
    kept = talk.fitted(said, room)
    assert kept == [one for one in said if one in kept]
    assert talk.size(talk.lines(kept)) <= room
