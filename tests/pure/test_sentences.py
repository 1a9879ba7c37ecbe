"""Text → sentences: where one ends in any script, and that its words stay as they are."""

import pytest
from hypothesis import given
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
    ("text", "expected"),
    [
        ("Ship it. Then rest.", ["Ship it.", "Then rest."]),
        ("Is it done? Yes! Good", ["Is it done?", "Yes!", "Good"]),
        ("Use e.g. Postgres here. Fine.", ["Use e.g. Postgres here.", "Fine."]),
        ("Ask Dr. Weber about it. Come.", ["Ask Dr. Weber about it.", "Come."]),
        ("It costs 3.50 EUR. Pay it.", ["It costs 3.50 EUR.", "Pay it."]),
        ("One line\nanother line", ["One line", "another line"]),
        ("必须用中文。不要删除。", ["必须用中文。", "不要删除。"]),
        ("no capital here. nor here", ["no capital here.", "nor here"]),
        ("2. The blue one. Take it.", ["2. The blue one.", "Take it."]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_on_a_long_line_sentences_end_where_they_do_on_a_short_one() -> None:
    said = [f"Cabinet {number} holds {number * 7} cables." for number in range(300)]
    assert split(" ".join(said)) == said


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("de", "Wir kommen am 10. April um acht, z. B. abends."),
        ("de", "Die Kisten stehen im 2. Stock, und das 107. Paket ist zerbrechlich."),
        ("es", "La oficina está en la 2. planta."),
        ("fi", "Varasto on 2. kerroksessa."),
        ("pl", "Biuro jest na 2. piętrze, obok windy."),
        ("ru", "Склад на 2. этаже."),
        ("tr", "Depo binanın 3. katında, kapı 7."),
    ],
)
def test_an_abbreviation_or_an_ordinal_ends_no_sentence(language: str, sentence: str) -> None:
    assert split(sentence, language) == [sentence]


@pytest.mark.parametrize("mark", ["- ", "* ", "### ", "  • ", "- [ ] "])
def test_list_marks_and_heads_are_left_out(mark: str) -> None:
    assert split(f"{mark}We must ship **7** boxes") == ["We must ship 7 boxes"]
    assert is_item(f"{mark}We must ship")


@pytest.mark.parametrize(("mark", "name"), [("1. ", "1"), ("2) ", "2"), ("b) ", "b")])
def test_the_number_of_an_item_stays_so_that_it_can_be_named(mark: str, name: str) -> None:
    assert split(f"{mark}We must ship") == [f"{mark}We must ship"]
    assert is_item(f"{mark}We must ship")
    assert find_mark(f"{mark}We must ship") == name


@pytest.mark.parametrize(
    "sentence",
    [
        "10 users at most are allowed",
        "-5 degrees at most, please",
        "Always use 2**10 bytes per page",
        "Keep __init__.py and my_table as they are",
        "Call f(*args, **kwargs) with it",
    ],
)
def test_a_value_keeps_its_beginning_and_end(sentence: str) -> None:
    assert split(sentence) == [sentence]


def test_a_long_sentence_is_taken_apart_between_words_and_none_of_it_is_lost() -> None:
    text = "We need " + ", ".join(f"{number} boxes of kind number {number}" for number in range(40)) + "."
    parts = split(text)
    assert len(parts) > 2
    assert all(len(part) <= LONGEST for part in parts)
    assert " ".join(parts) == text


@pytest.mark.parametrize("text", ["x" * 5000, "很" * 5000, "We must ship " + "1234567890 " * 600])
def test_nothing_of_an_endless_text_is_lost(text: str) -> None:
    parts = split(text)
    assert all(len(part) <= 2000 for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_long_address_is_whole() -> None:
    address = f"https://files.test/{'a-b/' * 120}end"
    assert address in split(f"Take it from {address} and unpack it.")[1]


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
def test_no_word_of_prose_is_lost_or_changed(text: str) -> None:
    assert " ".join(split(text)) == text


@pytest.mark.parametrize("name", ["Physics.OverlapSphere", "self._name", "a.B.c", "node.js", "v1.2.3"])
def test_a_name_with_a_point_in_it_is_whole(name: str) -> None:
    assert split(f"Look at {name} there. Then go on.") == [f"Look at {name} there.", "Then go on."]
