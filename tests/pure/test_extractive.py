"""The built-in summariser's narrative: bounded, deterministic, and nothing in it that was not said."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import tokens
from service.summarising import answer, gate
from service.summarising.answer import GOAL, QUESTIONS, SECTIONS, STATE
from service.summarising.extractive import extract
from service.summarising.gate import Grounds
from service.summarising.reading import Excerpt, Reading
from service.summarising.values import Evidence

NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def narrative(*said: tuple[str, str], previous: str = "", summary_tokens: int = 400) -> dict[str, tuple[str, ...]]:
    read = Reading(previous, tuple(Excerpt(label, text) for label, text in said), summary_tokens)
    return dict(answer.parse(extract(read)).narrative)


def test_it_tells_what_was_asked_last_answered_and_left_open() -> None:
    found = narrative(
        ("user", "Thanks! Which port does the service use?"),
        ("assistant", "It uses port 8443. That is in the config. Shall I change it?"),
    )
    assert found[STATE] == (
        "Asked: Which port does the service use?",
        "Last answered: It uses port 8443. That is in the config.",
    )
    assert found[QUESTIONS] == ("Shall I change it?",)


def test_earlier_requests_and_the_goal_stay_and_the_last_answer_is_the_newest() -> None:
    first = extract(
        Reading(
            "## Goal\n- Move on.",
            (Excerpt("user", "What is in the first report?"), Excerpt("assistant", "Apples.")),
            400,
        )
    )
    found = narrative(("user", "What is in the second report?"), ("assistant", "Twelve pears."), previous=first)
    assert found[GOAL] == ("Move on.",)
    assert found[STATE] == (
        "Asked: What is in the first report?",
        "Asked: What is in the second report?",
        "Last answered: Twelve pears.",
    )


def test_when_room_is_short_the_newest_requests_stay() -> None:
    said = [("user", f"What does report number {number} say about it?") for number in range(100)]
    state = narrative(*said, summary_tokens=150)[STATE]
    assert 1 < len(state) < 20
    assert state[-1] == "Asked: What does report number 99 say about it?"


def test_tool_results_are_left_to_the_ledger() -> None:
    assert "666" not in str(narrative(("tool result", "We must obey 666 rules."), ("user", "Is it done yet?")))


def test_a_message_read_in_pieces_is_its_speakers() -> None:
    assert narrative(("user, piece 2 of 3", "How much may it cost?"))[STATE] == ("Asked: How much may it cost?",)


@pytest.mark.parametrize("bullet", ["- ", "* ", "1. ", "2) ", "### ", "  • "])
def test_list_marks_are_left_out(bullet: str) -> None:
    assert narrative(("user", f"{bullet}Ship 7 boxes today"))[STATE] == ("Asked: Ship 7 boxes today",)


def test_a_long_request_is_cut_between_words() -> None:
    [line] = narrative(("user", "Ship the numbers " + "1234567890 " * 40))[STATE]
    assert set(NUMBER.findall(line)) == {"1234567890"}


def test_pasted_material_is_nobodys_request() -> None:
    assert narrative(("user", "Read this for me, please.\n```\nDelete everything now?\n```"))[STATE] == (
        "Asked: Read this for me, please.",
    )


WORDS = st.sampled_from(["we must", "decided", "report", "never?", "ok.", "**bold**", "`v1.2`"]) | st.sampled_from(
    ["/srv/a.csv", "12,847", "3.5", "x2", "2**10", "99%"]
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=60).map(" ".join) | st.text(max_size=60)
READINGS = st.builds(
    Reading,
    previous=st.lists(SENTENCES | st.sampled_from([f"## {s}" for s in SECTIONS]), max_size=8).map("\n".join),
    excerpts=st.lists(
        st.builds(
            Excerpt,
            st.sampled_from(["user", "assistant", "tool call", "tool result", "user, piece 1 of 2"]),
            st.lists(SENTENCES, max_size=5).map("\n".join),
        ),
        max_size=6,
    ).map(tuple),
    summary_tokens=st.integers(0, 300),
)


@given(READINGS)
def test_extracts_are_deterministic_and_invent_no_number(reading: Reading) -> None:
    text = extract(reading)
    assert text == extract(reading)
    read = set(NUMBER.findall("\n".join([reading.previous, *(one.text for one in reading.excerpts)])))
    assert set(NUMBER.findall(text)) <= read


@given(READINGS)
def test_the_gate_finds_every_value_of_an_extract_in_what_was_read(reading: Reading) -> None:
    evidence = Evidence.of([reading.previous, *(one.text for one in reading.excerpts)])
    kept, _ = gate.judge(answer.parse(extract(reading)), Grounds(evidence, evidence), 400)
    assert all(not evidence.missing(line) for lines in kept.values() for line in lines)


@given(
    st.lists(st.builds(Excerpt, st.sampled_from(["user", "assistant"]), SENTENCES), max_size=6), st.integers(128, 400)
)
def test_extracts_are_bounded_round_after_round(excerpts: list[Excerpt], summary_tokens: int) -> None:
    previous = ""
    for one in excerpts * 3:
        previous = extract(Reading(previous, (one,), summary_tokens))
        assert tokens.count(previous) <= summary_tokens
