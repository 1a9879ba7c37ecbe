"""A step, read once: numbered utterances with their speaker, their sort and what they answer."""

import pytest

from service.text.blocks import TextOrigin
from tests.pure.talks import heard, said, talk


def test_an_item_of_a_list_is_told_with_its_head() -> None:
    found = talk("Departure:\n- 04:00 from Oslo\n- 06:30 from Bergen\nThat is all.")
    assert [one.context for one in found] == ["", "Departure:", "Departure:", ""]


def test_a_short_mail_stands_whole_without_its_tags() -> None:
    found = heard([said("Why?\n<mail>\nYou must pay 99 EUR.\n</mail>")])
    assert found[1].text == "[pasted text: “You must pay 99 EUR.”]"
    assert (found[1].sort, found[1].by_user) == (TextOrigin.PASTED, False)


def test_of_a_long_log_the_lines_that_report_a_failure_stand_whatever_their_place() -> None:
    log = [f"2026-05-01 10:00:{number:02} INFO job {number} took 40 ms" for number in range(60)] * 20
    log[700] = "2026-05-01 10:00:07 ERROR job 7 has no disk"
    found = heard([said("Why?\n" + "\n".join(log))])
    assert len(found) == 101
    assert {one.context for one in found[1:]} == {"[code, 1200 lines]"}
    assert "“2026-05-01 10:00:07 ERROR job 7 has no disk”" in [one.text for one in found]


def test_a_row_of_a_table_is_told_with_the_first_row() -> None:
    (prices, first, row, last) = heard([said("The prices:\n| part | net |\n|---|---|\n| nut | 0.17 |\n| rod | 3 |")])
    assert (prices.text, first.text) == ("The prices:", "part | net")
    assert [(one.text, one.context) for one in (row, last)] == [("nut | 0.17", "part | net"), ("rod | 3", "part | net")]


@pytest.mark.parametrize(
    ("asked", "answer", "context"),
    [
        ("Gladly. Shall we take the barn for 80 guests?", "Yes please.", "Shall we take the barn for 80 guests?"),
        ("Which one?\n1. the barn\n2. the mill for 900", "2", "Which one? 2. the mill for 900"),
        ("Which one?\na) the barn\nb) the mill", "b, thanks", "Which one? b) the mill"),
        ("Is it late? Shall we take the barn?", "Yes.", "Shall we take the barn?"),
        ("Nehmen wir die Scheune?", "Ja, gern.", "Nehmen wir die Scheune?"),
        ("納屋にしますか？", "はい。", "納屋にしますか？"),
        ("That is all.", "Thanks!", ""),
        ("Shall we take the barn?", "Yes, but only if it has a second door on the side of the church.", ""),
    ],
)
def test_a_short_answer_is_told_with_its_question_and_the_item_that_it_names(
    asked: str, answer: str, context: str
) -> None:
    *_, one = talk("Help me.", asked, answer)
    assert one.context == context


def test_a_text_of_the_length_of_a_book_is_no_word_of_the_user() -> None:
    found = heard([said("It rains again today. " * 20_000)])
    assert {one.sort for one in found} == {TextOrigin.PASTED}
