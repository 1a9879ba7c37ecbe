"""Steps → the speakers' own sentences: what is theirs, where a sentence ends, and that its words stay as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising.sentences import LONGEST, Sentence, own_words, sentences, split
from service.transcript import Call, Step
from service.transcript.items import ToolCall, ToolResult


def collapsed(text: str) -> str:
    return " ".join(text.split())


# ---- where a sentence ends


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ship it. Then rest.", ["Ship it.", "Then rest."]),
        ("Is it done? Yes! Good…", ["Is it done?", "Yes!", "Good…"]),
        ("Use e.g. Postgres here. Fine.", ["Use e.g. Postgres here.", "Fine."]),
        (
            "The meeting with Dr. Weber is on 3 Dec. 2026. Come.",
            ["The meeting with Dr. Weber is on 3 Dec. 2026.", "Come."],
        ),
        ("It costs 3.50 EUR. Pay it.", ["It costs 3.50 EUR.", "Pay it."]),
        ("See v1.2.3 of report.pdf. Ok.", ["See v1.2.3 of report.pdf.", "Ok."]),
        ("One line\nanother line", ["One line", "another line"]),
        ("必须用中文。不要删除。", ["必须用中文。", "不要删除。"]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("", []),
        ("   \n\t\n", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert list(split(text)) == expected


@pytest.mark.parametrize("mark", ["- ", "* ", "1. ", "2) ", "### ", "  • ", "- 3. "])
def test_list_marks_and_heads_are_left_out(mark: str) -> None:
    assert list(split(f"{mark}We must ship **7** boxes")) == ["We must ship 7 boxes"]


@pytest.mark.parametrize(
    "sentence",
    [
        "10 users at most are allowed",
        "3.5 million must be the budget",
        "2024 was the year of the deadline",
        "-5 degrees at most, please",
        "Always use 2**10 bytes per page",
        "Keep __init__.py and my_table as they are",
        "Multiply a * b",
        "Use 2 ** 10 and 3 ** 4 of them",
        "Call f(*args, **kwargs) with it",
    ],
)
def test_a_value_keeps_its_beginning_and_end(sentence: str) -> None:
    assert list(split(sentence)) == [sentence]


def test_a_long_sentence_is_taken_apart_at_its_clauses_and_none_of_it_is_lost() -> None:
    text = "We need " + ", ".join(f"{number} boxes of kind number {number}" for number in range(40)) + "."
    parts = list(split(text))
    assert len(parts) > 2
    assert all(len(part) <= LONGEST for part in parts)
    assert all(part.endswith(",") for part in parts[:-1])
    assert " ".join(parts) == text


def test_a_long_clause_is_cut_between_words() -> None:
    parts = list(split("We must ship " + "1234567890 " * 60))
    assert all(len(part) <= LONGEST for part in parts)
    assert {word for part in parts for word in part.split()} == {"We", "must", "ship", "1234567890"}


def test_one_endless_word_is_no_sentence() -> None:
    assert list(split("x" * 5000)) == []


WORDS = st.sampled_from(
    [
        "we",
        "must",
        "e.g.",
        "12,847.50",
        "report.",
        "Why?",
        "**bold**",
        "`v1.2`",
        "- ",
        "\n",
        "(so)",
        "移行。",
        "a_b",
        ";",
        ", ",
    ]
)
TEXTS = st.lists(WORDS, max_size=150).map(" ".join) | st.text(max_size=80)


@given(TEXTS)
def test_sentences_are_bounded_on_one_line_and_never_empty(text: str) -> None:
    for sentence in split(text):
        assert 0 < len(sentence) <= LONGEST
        assert sentence == collapsed(sentence)


@given(
    st.lists(st.sampled_from(["we", "must", "12,847.50", "report.", "Why?", "so;", "and,"]), max_size=150).map(" ".join)
)
def test_no_word_of_prose_is_lost_or_changed(text: str) -> None:
    assert " ".join(split(text)) == text


# ---- whose words

FOREIGN = {
    "a fence": "```\nnever stop\n```",
    "an open fence": "```python\nnever stop\n",
    "a quotation": "> never stop\n> never",
    "a table": "| never | stop |\n|---|---|",
    "a log": "2026-11-22 10:00:01 WARN never stop",
    "a level": "[ERROR] never stop",
    "a prompt": "$ never --stop",
    "a diff": "@@ -1 +1 @@ never",
    "a statement": "SELECT never FROM stop;",
    "an element": "<email>\nnever stop\n</email>",
    "an element with attributes": '<document id="1">never stop</document>',
    "a comment": "<!-- never stop -->",
    "three quotes": '"""\nnever stop\n"""',
    "a delimited text": "--- BEGIN MAIL ---\nnever stop\n--- END MAIL ---",
    "a forwarded mail": "---------- Forwarded message ----------\nnever stop",
    "a mail's head": "From: boss@example.org\nSubject: stop\n\nnever stop",
    "eine Mail": "-----Ursprüngliche Nachricht-----\nnever stop",
    "a traceback": "at never.stop(Stop.java:7)",
    "json": '{"never": "stop"\n}',
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
def test_pasted_material_is_not_the_speakers_own(foreign: str) -> None:
    assert "never" not in own_words(f"Please look at this.\n\n{foreign}")
    assert "Please look at this." in own_words(f"Please look at this.\n\n{foreign}")


@pytest.mark.parametrize(
    "text",
    [
        "From now on write in French.",
        "I want 3 > 2 to hold.",
        "Select the best option, please",
        "Update: the budget is 600.",
        "The tag <b> is fine here",
        "We begin on Monday and end on Friday.",
    ],
)
def test_what_people_say_is_their_own(text: str) -> None:
    assert own_words(text) == text


def test_after_a_closed_fence_the_speaker_goes_on() -> None:
    assert list(split(own_words("Before.\n```\ncode\n```\nAfter."))) == ["Before.", "After."]


def test_what_a_sentence_quotes_stays_in_it_but_is_not_its_own() -> None:
    sentence = Sentence('The mail says "you must always delete all the backups" somewhere.', "m", "user")
    assert "delete" in sentence.text
    assert "delete" not in sentence.own
    assert Sentence("don't use 'x' or \"y\"", "m", "user").own == "don't use 'x' or \"y\""


# ---- of steps


def step(text: str, role: str = "user", identity: str = "m", *results: str) -> Step:
    calls = tuple(Call(ToolCall("c", "query", "We must."), ToolResult("c", result)) for result in results)
    return Step(identity, role, text, calls)


def test_each_sentence_names_its_message_its_speaker_and_whether_it_is_the_first() -> None:
    steps = [step("One. Two.", identity="a"), step("Three.", "assistant", "b")]
    assert list(sentences(steps)) == [
        Sentence("One.", "a", "user", first=True),
        Sentence("Two.", "a", "user"),
        Sentence("Three.", "b", "assistant", first=True),
    ]


def test_calls_and_their_results_say_nothing() -> None:
    assert [one.text for one in sentences([step("I look.", "assistant", "m", "We must obey 666 rules.")])] == [
        "I look."
    ]


def test_inline_data_is_no_sentence() -> None:
    text = "Look: data:image/png;base64," + "iVBORw0KGgo" * 3000 + " at this."
    assert sum(len(one.text) for one in sentences([step(text)])) < 200


@given(TEXTS, st.sampled_from(["user", "assistant"]))
def test_reading_never_fails_and_invents_nothing(text: str, role: str) -> None:
    for one in sentences([step(text, role)]):
        assert set(one.text) - {" "} <= set(text)
        assert (one.source, one.role) == ("m", role)
