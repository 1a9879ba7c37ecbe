"""A text's passages: rows, records of several lines, sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.recall.passages import LONGEST, find_passages

LONG_LINE = " ".join(f"This is sentence {number} of many." for number in range(20))
TEXTS = st.text(alphabet='ab 0.!?。\n\t{}[],:"=-中é', max_size=300) | st.text(max_size=80)


def of(text: str, *, said: bool = False) -> list[str]:
    return [text[one] for one in find_passages(text, is_speech=said)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b,c\n1,x. Y,2\n3,z,4", ["a,b,c", "1,x. Y,2", "3,z,4"]),
        ("- id: 1\n  city: Lyon\n- id: 2\n  city: Cork", ["- id: 1\n  city: Lyon", "- id: 2\n  city: Cork"]),
        (
            '{\n  "id": 1,\n  "at": {\n    "city": "Lyon"\n  },\n  "paid": true\n},\n{\n  "id": 2\n}',
            [
                "{",
                '  "id": 1,\n  "at": {\n    "city": "Lyon"\n  },\n  "paid": true\n},\n{',
                '  "id": 2\n}',
            ],
        ),
        ("state: open\n\nstate: shut", ["state: open", "", "state: shut"]),
        ("12:30 up\n12:31 down", ["12:30 up", "12:31 down"]),
        ("", [""]),
    ],
)
def test_a_row_and_a_record_of_several_lines_is_a_passage(text: str, expected: list[str]) -> None:
    assert of(text) == expected


def test_records_in_one_long_line_are_passages() -> None:
    rows = [f'{{"id": {number}, "at": {{"city": "Lyon"}}, "paid": true}}' for number in range(9)]
    assert [one.strip("[]") for one in of(f"[{', '.join(rows)}]")] == rows
    arrays = [f'[{number}, "Lyon", "paid", "a long text about it"]' for number in range(9)]
    assert of("".join(['{"rows": [', ",".join(arrays), "]}"]))[1:-1] == arrays[1:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is here. It is there! Is it?", ["It is here.", "It is there!", "Is it?"]),
        ("Im 2. Stock bei St. Gallen, z. B. heute.", ["Im 2. Stock bei St. Gallen, z. B. heute."]),
        ("今天。明天！", ["今天。", "明天！"]),
        ("كم السعر؟ لا أعرف الآن.", ["كم السعر؟", "لا أعرف الآن."]),
    ],
)
def test_what_was_said_is_cut_into_sentences(text: str, expected: list[str]) -> None:
    assert of(text, said=True) == expected


def test_a_long_line_of_a_result_is_cut_into_sentences() -> None:
    assert len(of(LONG_LINE)) == 20


@given(TEXTS | TEXTS.map(lambda text: text * 40), st.booleans())
def test_passages_have_all_words_of_a_text_in_their_order_and_are_short(text: str, said: bool) -> None:
    found = find_passages(text, is_speech=said)
    stood = 0
    for one in found:
        assert stood <= one.start <= one.stop <= len(text)
        assert one.stop - one.start <= LONGEST
        assert not any(map(str.isalnum, text[stood : one.start]))
        stood = one.stop
    assert not any(map(str.isalnum, text[stood:]))
