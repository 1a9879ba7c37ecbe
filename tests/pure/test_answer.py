"""A reply → what it says: sections by their heads, proposals, marks; nothing a model writes makes it fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising import answer
from service.summarising.answer import DECISIONS, FACTS, GOAL, KINDS, NARRATIVE, QUESTIONS, SECTIONS, STATE, SUPERSEDED
from service.summarising.pins import Proposal
from service.summarising.superseding import Mark

# ---- heads

HEADS = [
    "## Decisions",
    "##Decisions",
    "# decisions",
    "### Decisions:",
    "**Decisions**",
    "**Decisions:**",
    "## **Decisions**",
    "## Decisions made",
    "Decisions:",
    "## Decision",
    "## 3. Decisions",
    "3. **Decisions**",
]


@pytest.mark.parametrize("head", HEADS)
def test_a_head_is_known_by_its_words(head: str) -> None:
    assert answer.parse(f"{head}\n- Blue it is.").proposals == (Proposal("Blue it is.", KINDS[DECISIONS]),)


@pytest.mark.parametrize("section", NARRATIVE)
def test_lines_of_narrative_sections_are_the_narrative(section: str) -> None:
    assert answer.parse(f"## {section}\n- One.\n- Two.").narrative[section] == ("One.", "Two.")


@pytest.mark.parametrize("section", sorted(set(SECTIONS) - set(NARRATIVE)))
def test_lines_of_pinned_sections_are_proposals(section: str) -> None:
    found = answer.parse(f"## {section}\n- One.\n- Two.")
    assert found.proposals == (Proposal("One.", KINDS[section]), Proposal("Two.", KINDS[section]))
    assert not any(found.narrative.values())


@pytest.mark.parametrize("text", ["It rains.", "## Weather\n- It rains.", "```\n- It rains.\n```", "* It rains."])
def test_lines_under_no_known_head_are_the_current_state(text: str) -> None:
    assert "It rains." in answer.parse(text).narrative[STATE]


# ---- lines


@pytest.mark.parametrize("mark", ["- ", "* ", "• ", "1. ", "2) ", "– ", "  - "])
def test_list_marks_are_left_out(mark: str) -> None:
    assert answer.parse(f"## Goal\n{mark}Ship  7 boxes").narrative[GOAL] == ("Ship 7 boxes",)


@pytest.mark.parametrize(
    "line", ["None.", "- none", "N/A", "(nothing yet)", "- Nothing new.", "keine", "```", "===", "", "No new entries"]
)
def test_a_line_that_says_nothing_is_none(line: str) -> None:
    found = answer.parse(f"## Goal\n{line}\n## Decisions\n{line}")
    assert not any(found.narrative.values())
    assert found.proposals == ()


def test_a_number_in_front_of_a_proposal_is_not_a_part_of_it() -> None:
    assert [one.text for one in answer.parse("## Decisions\n- P7: Blue it is.").proposals] == ["Blue it is."]


# ---- marks


@pytest.mark.parametrize(
    "line",
    [
        "- P7: Blue it is.",
        "P7: Blue it is.",
        "- P7 → Blue it is.",
        "* **P7**: Blue it is.",
        '- P7: "Blue it is."',
        "- P7 is superseded by: Blue it is.",
    ],
)
def test_a_mark_names_an_entry_and_the_sentence_that_replaces_it(line: str) -> None:
    [mark] = answer.parse(f"## {SUPERSEDED}\n{line}").marks
    assert (mark.number, mark.text.rstrip(".")) == (7, "Blue it is")


@pytest.mark.parametrize("line", ["- P7", "- P7:", "- the seventh: blue", "- 7: blue", "- PX: blue"])
def test_a_mark_without_number_or_sentence_is_none(line: str) -> None:
    assert answer.parse(f"## {SUPERSEDED}\n{line}").marks == ()


def test_marks_stand_in_their_own_section_only() -> None:
    assert answer.parse("## Goal\n- P7: Blue it is.").marks == ()


# ---- whatever a model writes

LINES = st.sampled_from(
    [
        *HEADS,
        *(f"## {section}" for section in (*SECTIONS, SUPERSEDED)),
        "- P3: new",
        "- one",
        "**x**",
        "##",
        "::",
        "- ",
        "P",
        "```json",
    ]
) | st.text(max_size=40)


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_reading_never_fails_and_every_line_is_clean(text: str) -> None:
    found = answer.parse(text)
    lines = [line for section in NARRATIVE for line in found.narrative[section]]
    for line in (*lines, *(one.text for one in found.proposals), *(one.text for one in found.marks)):
        assert line == " ".join(line.split())
    assert set(found.narrative) == set(NARRATIVE)
    assert all(isinstance(mark, Mark) for mark in found.marks)


def test_an_endless_answer_is_read_to_a_bound() -> None:
    assert len(answer.parse("- line\n" * 100_000).narrative[STATE]) < 1000


SENTENCES = st.lists(
    st.sampled_from(["We ship 7 boxes.", "Is it blue?", "12,847 rows", "必须", "(so) it is", "P7 holds"]), max_size=4
)


@given(st.fixed_dictionaries({section: SENTENCES.map(tuple) for section in NARRATIVE}))
def test_what_is_written_is_read_again(narrative: dict[str, tuple[str, ...]]) -> None:
    assert answer.parse(answer.written(narrative)).narrative == narrative


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_a_narrative_that_was_read_stays_as_it_is_from_then_on(text: str) -> None:
    """A checkpoint's narrative is read and written in every round."""
    once = answer.parse(answer.written(answer.parse(text).narrative)).narrative
    assert answer.parse(answer.written(once)).narrative == once


def test_sections_are_written_in_their_order_and_without_empty_ones() -> None:
    assert (
        answer.written({STATE: ("b",), GOAL: ("a",), QUESTIONS: (), FACTS: ("no",)})
        == "## Goal\n- a\n\n## Current state\n- b"
    )
