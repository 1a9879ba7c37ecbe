"""A summariser's reply: its choices by number, and the state; nothing that it writes makes reading fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising.reading import Finish, Reply
from service.summarising.reply import Answer, Verb, parse_reply, strip_reasoning
from service.summarising.wordings import LANGUAGES, WORDINGS


def read(text: str, finish: Finish = Finish.STOP) -> Answer:
    return parse_reply(Reply(text, finish))


@pytest.mark.parametrize(
    "text",
    [
        "rules: 12.3, 14.1",
        "- **Rules:** 12.3,14.1",
        "Rules: [12.3], [14.1]",
        "## Rules\n12.3\n14.1",
        "rule: 12.3\nrule: 14.1",
        "RULES：12.3、14.1",
    ],
)
def test_choices_are_read_however_they_are_marked(text: str) -> None:
    assert read(text) == Answer(rules=("12.3", "14.1"))


@pytest.mark.parametrize("nothing", ["none", "None.", "-", "keine", "なし"])
def test_a_line_that_chooses_nothing_is_no_line_of_the_state(nothing: str) -> None:
    assert read(f"rules: {nothing}\nquotations: {nothing}\n## Goal\nShip it.").state == ("## Goal", "Ship it.")


FENCED = "```python\nif bar:\n    # rules: 12.3\n    stop()\n```"


def test_what_is_fenced_is_code_and_a_fence_around_the_answer_is_none() -> None:
    answer = f"## Goal\nShip it.\n{FENCED}\n- Well."
    state = ("## Goal", "Ship it.", *FENCED.splitlines(), "- Well.")
    assert read(f"rules: 12.3\n{answer}") == Answer(state, rules=("12.3",))
    assert read("```\nrules: 12.3\n```\n## Goal\nShip it.") == Answer(("## Goal", "Ship it."), rules=("12.3",))
    assert read("```markdown\n## Goal\nShip it.\n```").state == ("## Goal", "Ship it.")


def test_a_fence_that_nothing_closes_is_closed_and_an_empty_one_is_left_out() -> None:
    assert read("## Goal\nShip it.\n```\nx = 1").state == ("## Goal", "Ship it.", "```", "x = 1", "```")
    assert read("## Goal\nShip it.\n```\n\n```").state == ("## Goal", "Ship it.")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translated_word_of_a_line_is_known(language: str) -> None:
    for verb in Verb:
        for name in WORDINGS[language].verbs[verb]:
            numbers = "P7 by 15.2" if verb is Verb.REPLACED else "P7"
            assert not read(f"{name}: {numbers}").state, name


@pytest.mark.parametrize(
    "line", ["Rules: nobody may enter after 22:00.", "The rules are 12.3 pages long.", "replaced: the second plan"]
)
def test_prose_with_such_a_word_is_the_states(line: str) -> None:
    answer = read(f"## Goal\n{line}")
    assert answer == Answer(state=("## Goal", line))


def test_what_stands_under_a_head_of_choices_ends_with_the_next_line_of_words() -> None:
    assert read("## Rules\n- 12.3\nThe state is fine. See 4.") == Answer(
        state=("The state is fine. See 4.",), rules=("12.3",)
    )


def test_of_a_reply_that_was_cut_off_all_lines_but_the_last_count() -> None:
    answer = read("rules: 1.2\n## Goal\nShip it.\nThe budget is 5", Finish.LENGTH)
    assert answer == Answer(state=("## Goal", "Ship it."), rules=("1.2",))


def test_fences_rulers_numbers_that_were_copied_along_and_empty_heads_are_no_part_of_it() -> None:
    assert read("```markdown\n## Goal\n## Figures\n[12.3] It costs 5.\n---\n```").state == ("## Figures", "It costs 5.")


def test_a_repeated_line_stands_once_and_a_head_without_words_is_left_out() -> None:
    assert read("##\nShip it.\nShip it.\n- Well.").state == ("Ship it.", "- Well.")


def test_reasoning_before_the_answer_is_left_out() -> None:
    assert strip_reasoning("so I think\n</think>\n## Goal") == "## Goal"


def test_an_endless_answer_is_read_to_a_bound() -> None:
    assert len(read("It goes on.\n" * 10_000).state) <= 400


@given(st.text(alphabet="rules:drop# P127.,-\n*`x", max_size=200))
def test_reading_never_fails_and_every_line_is_clean(text: str) -> None:
    for line in read(text).state:
        assert line == " ".join(line.split())
        assert line
