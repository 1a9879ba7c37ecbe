"""Text → sentences: where one ends in any script, and that its words stay as they are."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.text.sentences import (
    LONGEST,
    asks,
    find_mark,
    is_item,
    reports_failure,
    split_lines,
    split_sentences,
    strip_marks,
)


def split(text: str, language: str = "en") -> list[str]:
    return [sentence for line in split_lines(text) for sentence in split_sentences(strip_marks(line), language)]


def collapsed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Ship it. Then rest.", ["Ship it.", "Then rest."]),
        ("en", "Is it done? Yes! Good", ["Is it done?", "Yes!", "Good"]),
        ("en", "Use e.g. Postgres here. Fine.", ["Use e.g. Postgres here.", "Fine."]),
        ("en", "Ask Dr. Weber about it. Come.", ["Ask Dr. Weber about it.", "Come."]),
        ("en", "It costs 3.50 EUR. Pay it.", ["It costs 3.50 EUR.", "Pay it."]),
        ("en", "One line\nanother line", ["One line", "another line"]),
        ("en", "必须用中文。不要删除。", ["必须用中文。", "不要删除。"]),
        ("en", "no capital here. nor here", ["no capital here.", "nor here"]),
        ("en", "2. The blue one. Take it.", ["2. The blue one.", "Take it."]),
        ("en", "", []),
        ("de", "Wir kommen am 10. April um acht, z. B. abends.", None),
        ("de", "Die Kisten stehen im 2. Stock, und das 107. Paket ist zerbrechlich.", None),
        ("es", "La oficina está en la 2. planta.", None),
        ("fi", "Varasto on 2. kerroksessa.", None),
        ("pl", "Biuro jest na 2. piętrze, obok windy.", None),
        ("ru", "Склад на 2. этаже.", None),
        ("tr", "Depo binanın 3. katında, kapı 7.", None),
        ("en", "10 users at most are allowed", None),
        ("en", "-5 degrees at most, please", None),
        ("en", "Always use 2**10 bytes per page", None),
        ("en", "Keep __init__.py and my_table as they are", None),
        ("en", "Call f(*args, **kwargs) with it", None),
        ("en", "Look at self._name there. Then go on.", ["Look at self._name there.", "Then go on."]),
        ("en", "Look at Physics.OverlapSphere there.", None),
    ],
)
def test_sentences_end_where_a_reader_ends_them(language: str, text: str, expected: list[str] | None) -> None:
    assert split(text, language) == ([text] if expected is None else expected)


def test_on_a_long_line_sentences_end_where_they_do_on_a_short_one() -> None:
    said = [f"Cabinet {number} holds {number * 7} cables." for number in range(300)]
    assert split(" ".join(said)) == said


@pytest.mark.parametrize("mark", ["- ", "* ", "### ", "  • ", "- [ ] "])
def test_list_marks_and_heads_are_left_out(mark: str) -> None:
    assert split(f"{mark}We must ship **7** boxes") == ["We must ship 7 boxes"]
    assert is_item(f"{mark}We must ship")


@pytest.mark.parametrize(("mark", "name"), [("1. ", "1"), ("2) ", "2"), ("b) ", "b")])
def test_the_number_of_an_item_stays_so_that_it_can_be_named(mark: str, name: str) -> None:
    assert split(f"{mark}We must ship") == [f"{mark}We must ship"]
    assert is_item(f"{mark}We must ship")
    assert find_mark(f"{mark}We must ship") == name


@pytest.mark.parametrize("text", ["x" * 5000, "很" * 5000, "We must ship " + "1234567890 " * 600])
def test_nothing_of_an_endless_text_is_lost(text: str) -> None:
    parts = split(text)
    assert all(len(part) <= 2000 for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("line", "reports"),
    [
        ("2026-05-01 ERROR disk 7", True),
        ("TypeError: nothing there", True),
        ("3 tests FAILED", True),
        ("0 errors, all well", False),
        ("errors: 0", False),
        ("a terror of a film", False),
    ],
)
def test_a_line_that_reports_a_failure_is_known(line: str, reports: bool) -> None:
    assert reports_failure(line) is reports


@pytest.mark.parametrize("text", ["Really?", "真的吗？", "هل انتهى؟", 'He asked "why?"'])
def test_a_question_is_known_by_its_mark(text: str) -> None:
    assert asks(text)
    assert not asks(text + " No.")


WORDS = ["we", "must", "12,847.50", "report.", "Why?", "**bold**", "- ", "\n", "a_b", ";"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=150).map(" ".join) | st.text(max_size=80)


@given(TEXTS)
def test_sentences_are_bounded_on_one_line_and_never_empty(text: str) -> None:
    for sentence in split(text):
        assert 0 < len(sentence) <= LONGEST
        assert sentence == collapsed(sentence)


@given(st.lists(st.sampled_from(["we", "must", "12,847.50", "report.", "Why?", "so;"]), max_size=150).map(" ".join))
@example("We need " + ", ".join(f"{number} boxes of kind number {number}" for number in range(40)) + ".")
def test_no_word_of_prose_is_lost_or_changed(text: str) -> None:
    parts = split(text)
    assert " ".join(parts) == text
    assert all(len(part) <= LONGEST for part in parts)
