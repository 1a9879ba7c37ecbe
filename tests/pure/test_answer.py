"""A reply → what it says; nothing that a model writes makes it fail."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising.memory import NARRATIVE, Kind, Paragraph, Section
from service.summarising.reply.answer import Answer, Keep, Replaced, parse
from service.summarising.wordings import WORDINGS

CONSTRAINT = (Kind.CONSTRAINT,)
BOTH = (Kind.CONSTRAINT, Kind.PREFERENCE)


def told(text: str) -> dict[Section, tuple[str, ...]]:
    return {one.section: one.lines for one in parse(text).narrative}


def kept(text: str) -> list[tuple[tuple[Kind, ...], tuple[str, ...], str]]:
    return [(one.kinds, one.numbers, one.words) for one in parse(text).keeps]


# ---- the form that the prompt asks for


def test_a_reply_in_the_form_that_is_asked_for() -> None:
    reply = """\
## Goal
A tour for six to the lake.
## Current state
- Two boats are booked.
- The mail to the group, newest version: "Dear all, we leave at 9."

keep constraint: 12.3, 14.1-14.3
keep decision: 15.2
replaced: P7 by 15.2
drop: P12, P28
"""
    assert parse(reply) == Answer(
        narrative=(
            Paragraph(Section.GOAL, ("A tour for six to the lake.",)),
            Paragraph(
                Section.STATE,
                (
                    "Two boats are booked.",
                    'The mail to the group, newest version: "Dear all, we leave at 9."',
                ),
            ),
        ),
        keeps=(
            Keep(CONSTRAINT, ("12.3", "14.1", "14.2", "14.3")),
            Keep((Kind.DECISION,), ("15.2",)),
        ),
        replaced=(Replaced(7, ("15.2",)),),
        drops=(12, 28),
    )


def test_the_example_in_the_page_about_the_form_says_what_the_page_says() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "summariser.md").read_text(encoding="utf-8")
    [example] = re.findall(r"<!-- a reply -->\n```\n(.*?)```", page, re.DOTALL)
    read = parse(example)
    assert [one.section for one in read.narrative] == list(NARRATIVE)
    assert read.keeps == (
        Keep(CONSTRAINT, ("12.3", "14.1", "14.2", "14.3")),
        Keep((Kind.DECISION,), ("15.2",)),
        Keep((Kind.VALUE,), ("13.2", "16.4")),
    )
    assert read.replaced == (Replaced(7, ("15.2",)),)
    assert read.drops == (12, 28)


# ---- lines with numbers


@pytest.mark.parametrize(
    "line",
    [
        "keep constraint: 12.3, 14.1",
        "Keep Constraint: 12.3 and 14.1",
        "- keep constraint: 12.3,14.1",
        "* **keep constraint:** [12.3], [14.1]",
        "**keep constraint**: 12.3; 14.1",
        "`keep constraint: 12.3, 14.1`",
        "1. keep constraint: 12.3 14.1",
        "keep constraint 12.3, 14.1",
        "keep constraint = 12.3, 14.1",
        'keep constraint: ["12.3", "14.1"]',
        '"keep constraint": ["12.3", "14.1"],',
        "keep constraint: 12.3 (said by Ann), 14.1 (the second one)",
        "keep constraints: 12.3, 14.1.",
        "keep as constraint: 12.3, 14.1",
        "constraint: 12.3, 14.1",
        "constraints to keep: 12.3, 14.1",
        "behalte Vorgabe: 12.3, 14.1",
        "garde contrainte : 12.3, 14.1",
        "conservar restricción: 12.3, 14.1",
        "tieni vincolo: 12.3, 14.1",
        "guardar restrição: 12.3, 14.1",
        "сохранить ограничение: 12.3, 14.1",
        "保留约束：12.3、14.1",
        "保留 约束: 12.3，14.1",
        "保持 制約：12.3、14.1",
    ],
)
def test_sentences_are_named_however_the_line_is_written(line: str) -> None:
    assert parse(f"## Goal\nA tour.\n{line}") == Answer(
        (Paragraph(Section.GOAL, ("A tour.",)),), (Keep(CONSTRAINT, ("12.3", "14.1")),)
    )


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ("14.1-14.3", ("14.1", "14.2", "14.3")),
        ("14.1–14.3", ("14.1", "14.2", "14.3")),
        ("14.1 - 14.3", ("14.1", "14.2", "14.3")),
        ("14.1-3", ("14.1", "14.2", "14.3")),
        ("14.1至14.2", ("14.1", "14.2")),
        ("12.3-13.1", ("12.3-13.1",)),
        ("P7, 12.1", ("P7", "12.1")),
        ("12.1, 12.1", ("12.1",)),
        ("14.3-14.1", ()),
    ],
)
def test_ranges_within_a_step_are_written_out(numbers: str, expected: tuple[str, ...]) -> None:
    found = kept(f"keep fact: {numbers}")
    assert [one[1] for one in found] == ([expected] if expected else [])


def test_a_range_is_bounded() -> None:
    [(_, numbers, _)] = kept("keep fact: 1.1-1.9999")
    assert numbers[-1] == "1.40"


def test_several_kinds_may_be_named() -> None:
    [keep] = parse("keep constraint/preference: 4.1").keeps
    assert keep.kinds == BOTH


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("replaced: P7 by 15.2", [(7, ("15.2",))]),
        ("replaced: P7 with 15.2", [(7, ("15.2",))]),
        ("- **Replaced:** P7 → 15.2", [(7, ("15.2",))]),
        ("P7 → 15.2", [(7, ("15.2",))]),
        ("P7: 15.2", [(7, ("15.2",))]),
        ("P7 is replaced by 15.2", [(7, ("15.2",))]),
        ('"P7": "15.2",', [(7, ("15.2",))]),
        ("replaced: 7 by 15.2", [(7, ("15.2",))]),
        ("ersetzt: P7 durch 15.2", [(7, ("15.2",))]),
        ("被取代：P7 → 15.2", [(7, ("15.2",))]),
        ("replaced: P7 by 15.2, 15.3", [(7, ("15.2", "15.3"))]),
        ("replaced: P7, P8 by 15.2", [(7, ("15.2",)), (8, ("15.2",))]),
        ("replaced: P7 by 15.2; P8 by 16.1", [(7, ("15.2",)), (8, ("16.1",))]),
        ("replaced: P7 by P9", [(7, ("P9",))]),
        ("## Superseded\n- P7: 15.2", [(7, ("15.2",))]),
        ("replaced: P7, P8", []),
        ("replaced: none", []),
    ],
)
def test_a_pin_is_replaced(line: str, expected: list[tuple[int, tuple[str, ...]]]) -> None:
    assert [(one.number, one.numbers) for one in parse(line).replaced] == expected


@pytest.mark.parametrize(
    "line",
    [
        'replaced: P7 by "Blue it is now."',
        "## Superseded\n- P7: Blue it is now.",
        "## Replaced\nP7 → Blue it is now.",
    ],
)
def test_what_replaces_a_pin_may_be_words(line: str) -> None:
    assert parse(line).replaced == (Replaced(7, (), "Blue it is now."),)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("drop: P12, P28", (12, 28)),
        ("Drop: P12,P28", (12, 28)),
        ("drop P12", (12,)),
        ("drop: 12, 28", (12, 28)),
        ("drop: P12-P14", (12, 13, 14)),
        ("drop: P12 (that trip is over)", (12,)),
        ("gestrichen: P12", (12,)),
        ("删除：P12、P28", (12, 28)),
        ("drop: none", ()),
        ("drop: 12.3", ()),
        ("drop: P12.3", ()),
        ("drop: 12 old tables", ()),
    ],
)
def test_pins_are_dropped(line: str, expected: tuple[int, ...]) -> None:
    assert parse(line).drops == expected


# ---- words instead of numbers


@pytest.mark.parametrize(
    "line",
    [
        'keep constraint: "Nobody brings a dog."',
        "keep constraint: Nobody brings a dog.",
        "- **keep constraint:** “Nobody brings a dog.”",
        "keep constraint: «Nobody brings a dog.»",
    ],
)
def test_words_may_stand_instead_of_numbers(line: str) -> None:
    assert kept(line) == [(CONSTRAINT, (), "Nobody brings a dog.")]


@pytest.mark.parametrize(
    ("line", "numbers", "words"),
    [
        ("- Nobody brings a dog.", (), "Nobody brings a dog."),
        ("- 12 boats are too many.", (), "12 boats are too many."),
        ("- [12.3] Nobody brings a dog.", ("12.3",), "Nobody brings a dog."),
        ("- 12.3: Nobody brings a dog.", ("12.3",), "Nobody brings a dog."),
        ("- 12.3", ("12.3",), ""),
        ("- P7: Nobody brings a dog.", ("P7",), "Nobody brings a dog."),
        ("- It costs 12.5 EUR.", (), "It costs 12.5 EUR."),
    ],
)
def test_what_stands_under_a_pinned_head_is_to_be_kept(line: str, numbers: tuple[str, ...], words: str) -> None:
    assert kept(f"## Constraints and preferences\n{line}") == [(BOTH, numbers, words)]


def test_an_entry_of_the_prompt_that_is_repeated_is_that_entry() -> None:
    assert kept("P7 constraint: Nobody brings a dog.") == [(CONSTRAINT, ("P7",), "Nobody brings a dog.")]


# ---- prose that only looks like a line of the form


@pytest.mark.parametrize(
    "line",
    [
        "Keep 12 boats in reserve",
        "Drop 12 tables",
        "Keep the tests green",
        "Decision: we take the ferry",
        "Files: the draft stands in tour.md",
        "The price rose from 12.3 to 14.1 EUR",
        "P7 is a good pump",
        "Value 12.3 was measured",
        "Goal is met",
    ],
)
def test_prose_stays_in_the_narrative(line: str) -> None:
    assert parse(f"## Goal\n- {line}") == Answer((Paragraph(Section.GOAL, (line,)),))


# ---- heads


@pytest.mark.parametrize(
    "head",
    [
        "## Open questions",
        "##Open questions",
        "# open questions",
        "### Open Questions:",
        "**Open questions**",
        "**Open questions:**",
        "## **Open questions**",
        "## Open questions so far",
        "Open questions:",
        "Open questions",
        "## 2. Open questions",
        "2. **Open questions**",
        "【未决问题】",
        "## Offene Fragen",
    ],
)
def test_a_head_is_known_by_its_words(head: str) -> None:
    assert told(f"{head}\n- Who drives?") == {Section.QUESTIONS: ("Who drives?",)}


HEADS = [(name, section) for one in WORDINGS.values() for name, section in one.heads.items()]


@pytest.mark.parametrize(("name", "section"), HEADS)
def test_a_translated_head_is_known_and_a_sentence_with_its_words_is_none(name: str, section: Section) -> None:
    reply = f"## {name.capitalize()}\n- Who drives on Monday?"
    if section in NARRATIVE:
        assert told(reply) == {section: ("Who drives on Monday?",)}
    else:
        assert [one[2] for one in kept(reply)] == ["Who drives on Monday?"]
    assert told(f"## Goal\n- xyz {name} xyz") == {Section.GOAL: (f"xyz {name} xyz",)}


KINDS = [(name, kind) for one in WORDINGS.values() for name, kind in one.kinds.items()]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_translated_kind_is_known_and_prose_with_its_word_is_prose(name: str, kind: Kind) -> None:
    assert kept(f"keep {name}: 3.1") == [((kind,), ("3.1",), "")]
    assert parse(f"keep {name} xyz").keeps == ()


@pytest.mark.parametrize(
    ("language", "line"),
    [(name, line) for name in WORDINGS for line in ("keep", "replaced", "drop")],
)
def test_a_translated_line_is_known_and_prose_with_its_word_is_prose(language: str, line: str) -> None:
    for verb in WORDINGS[language].lines[line]:
        read = parse(f"{verb}: P3 → 4.1")
        assert (len(read.keeps), len(read.replaced)) == ((0, 1) if line == "replaced" else (line == "keep", 0))
        assert parse(f"{verb} xyz 12 xyz") == Answer((Paragraph(Section.STATE, (f"{verb} xyz 12 xyz",)),))


@pytest.mark.parametrize("language", WORDINGS)
def test_an_empty_section_says_nothing(language: str) -> None:
    for nothing in WORDINGS[language].lines["nothing"]:
        reply = f"## Goal\n- {nothing.capitalize()}.\n## Decisions\n({nothing})\ndrop: {nothing}"
        assert parse(reply) == Answer()
        assert told(f"## Goal\n{nothing} xyz") == {Section.GOAL: (f"{nothing} xyz",)}


def test_numbers_of_sentences_that_were_copied_along_are_left_out() -> None:
    reply = "## Current state\n- The tour is planned. [2.5] The bus holds 40 of 4.5 t.\n- [3.1]"

    assert told(reply) == {Section.STATE: ("The tour is planned. The bus holds 40 of 4.5 t.",)}


def test_a_head_and_its_text_may_stand_on_one_line() -> None:
    assert told("**Goal:** a tour\nOpen questions: who drives?\n- Current state: none") == {
        Section.GOAL: ("a tour",),
        Section.QUESTIONS: ("who drives?",),
    }


@pytest.mark.parametrize("text", ["It rains.", "## Weather\n- It rains.", "```\n- It rains.\n```"])
def test_lines_under_no_known_head_are_the_current_state(text: str) -> None:
    assert "It rains." in told(text)[Section.STATE]


def test_what_announces_the_answer_is_no_part_of_it() -> None:
    assert told("Here is the record:\n\n## Goal\n- A tour.") == {Section.GOAL: ("A tour.",)}


def test_the_same_section_twice_is_one() -> None:
    assert told("## Goal\nOne.\n## Open questions\nTwo?\n## Goal\nThree.") == {
        Section.GOAL: ("One.", "Three."),
        Section.QUESTIONS: ("Two?",),
    }


def test_code_in_the_current_state_is_no_head_and_no_line_of_the_form() -> None:
    reply = "## Current state\nThe script:\n```sh\n# goal\ndrop: tables\nGoal: x\n```\nkeep fact: 1.1"
    assert told(reply) == {Section.STATE: ("The script:", "# goal", "drop: tables", "Goal: x")}
    assert kept(reply) == [((Kind.FACT,), ("1.1",), "")]


def test_a_fence_around_the_whole_answer_says_nothing() -> None:
    assert parse("```markdown\n## Goal\n- A tour.\nkeep fact: 1.1\n```") == Answer(
        (Paragraph(Section.GOAL, ("A tour.",)),), (Keep((Kind.FACT,), ("1.1",)),)
    )


def test_an_answer_as_json_on_lines_is_read() -> None:
    reply = """{
  "goal": "A tour.",
  "keep": {
    "constraint": ["12.3", "14.1-14.2"]
  },
  "replaced": {
    "P7": "15.2"
  },
  "drop": ["P12"]
}"""
    assert parse(reply) == Answer(
        (Paragraph(Section.GOAL, ("A tour.",)),),
        (Keep(CONSTRAINT, ("12.3", "14.1", "14.2")),),
        (Replaced(7, ("15.2",)),),
        (12,),
    )


@pytest.mark.parametrize("mark", ["- ", "* ", "• ", "1. ", "2) ", "– ", "  - ", ""])
def test_list_marks_are_left_out(mark: str) -> None:
    assert told(f"## Goal\n{mark}Ship  7 boxes") == {Section.GOAL: ("Ship 7 boxes",)}


# ---- whatever a model writes

LINES = st.sampled_from(
    [
        *(f"## {section}" for section in Section),
        *(f"{kind}: 1.1" for kind in Kind),
        "keep value: 12.3 million",
        "replaced: P3",
        "replaced P1 P2 3.4 P5",
        "P3 → ",
        "- one",
        "**x**",
        "##",
        "::",
        "- ",
        "P",
        "```json",
        "keep",
        "drop: P1-P999999",
        "drop: P3.2, P3.2-P4.1",
    ]
) | st.text(max_size=40)


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_reading_never_fails_and_every_line_is_clean(text: str) -> None:
    read = parse(text)
    for line in (
        *(line for one in read.narrative for line in one.lines),
        *(one.words for one in read.keeps),
        *(one.words for one in read.replaced),
    ):
        assert line == " ".join(line.split())
    assert all(one.kinds and (one.numbers or one.words) for one in read.keeps)
    assert all(one.numbers or one.words for one in read.replaced)
    assert {one.section for one in read.narrative} <= set(NARRATIVE)


@pytest.mark.parametrize(
    "line",
    ["line", "keep fact: 1.1", "keep fact: " + "1.1-1.40, " * 999, "drop: " + "P1-P40, " * 999],
)
def test_an_endless_answer_is_read_to_a_bound(line: str) -> None:
    read = parse(f"{line}\n" * 1_000)
    assert sum(len(one.lines) for one in read.narrative) + len(read.keeps) <= 400
    assert all(len(one.numbers) <= 512 for one in read.keeps)


SENTENCES = st.lists(
    st.sampled_from(["We ship 7 boxes.", "Is it blue?", "12,847 rows", "必须", "(so) it is", "P7 holds"]),
    max_size=4,
)


@given(st.fixed_dictionaries({section: SENTENCES.map(tuple) for section in NARRATIVE}))
def test_a_narrative_that_is_written_down_is_read_again(
    lines: dict[Section, tuple[str, ...]],
) -> None:
    narrative = tuple(Paragraph(one, lines[one]) for one in NARRATIVE if lines[one])
    text = "\n\n".join("\n".join([f"## {one.section}", *(f"- {line}" for line in one.lines)]) for one in narrative)
    assert parse(text) == Answer(narrative)


# ---- JSON instead of the form

TOUR = Answer(
    (Paragraph(Section.STATE, ("Two boats are booked.",)),),
    (Keep(CONSTRAINT, ("12.3",)),),
)


@pytest.mark.parametrize(
    "reply",
    [
        '{"narrative": "Two boats are booked.", "keep": ["constraint: 12.3"]}',
        '{"keep": {"constraint": ["12.3"]}, "narrative": "Two boats are booked."}',
        '{"narrative": {"current state": "Two boats are booked."}, "keep": {"constraints": 12.3}}',
        '{"narrative": "## Current state\\nTwo boats are booked.", "keep": [{"kind": "constraint", "sentence": 12.3}]}',
        '{"current_state": ["Two boats are booked."], "constraints": ["12.3"], "confidence": 0.9, "drop": null}',
        '```json\n{\n  "narrative": "Two boats are booked.",\n  "keep": {"constraint": ["12.3"],},\n}\n```',
        'Here is the record:\n{"state": "Two boats are booked.",\n"keep constraint": "12.3"}\nThat is all:',
    ],
)
def test_json_is_understood_and_leaves_nothing_of_itself(reply: str) -> None:
    read = parse(reply)
    kinds = {kind for one in read.keeps for kind in one.kinds}
    assert [one.numbers for one in read.keeps] == [("12.3",)]
    assert Kind.CONSTRAINT in kinds
    assert read.narrative[-1].lines[0] == "Two boats are booked."
    assert not set('{}[]"') & set("".join(line for one in read.narrative for line in one.lines))


def test_numbers_of_json_stay_as_they_are_written() -> None:
    assert kept('{"keep": {"value": [12.10, 7.1]}}') == [((Kind.VALUE,), ("12.10", "7.1"), "")]


@pytest.mark.parametrize(
    "changes",
    [
        {"replaced": {"P7": "15.2"}, "drop": ["P12"]},
        {"replaced": [{"pin": "P7", "by": "15.2"}], "drop": ["P12"]},
        {"replaced": ["P7 by 15.2"], "drop": "P12"},
    ],
)
def test_what_holds_no_more_is_understood_in_json(changes: dict[str, object]) -> None:
    assert parse(json.dumps(changes)) == Answer((), (), (Replaced(7, ("15.2",)),), (12,))


def test_json_that_is_broken_is_left_out() -> None:
    reply = '{\n  "narrative": "Two boats are booked.,\n  "keep": [\n    "12.3",\n  ],\n  "more": [1\n'
    assert parse(reply) == Answer()


def test_json_in_the_text_that_is_worked_on_stays() -> None:
    reply = '## Current state\nThe settings:\n```\n{"port": 80}\n```\n{"host": "a.example"}'
    assert told(reply)[Section.STATE] == ("The settings:", '{"port": 80}', '{"host": "a.example"}')


@given(
    st.recursive(
        st.none() | st.floats() | st.text(max_size=8),
        lambda one: st.lists(one) | st.dictionaries(st.text(max_size=8), one),
        max_leaves=12,
    )
)
def test_no_json_is_too_odd(value: object) -> None:
    for read in (parse(json.dumps({"keep": value})), parse(json.dumps({"x": value}, indent=1)[:-2])):
        assert all(one.kinds and (one.numbers or one.words) for one in read.keeps)
