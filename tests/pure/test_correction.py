"""A summary corrected by an operator: what keeps its number and source, what stays, and what is refused."""

from dataclasses import replace

import pytest

from service.errors import Unprocessable
from service.summarising import room
from service.summarising.correction import check_summary, correct_memory
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.message import Parts
from service.summarising.utterances import Speaker, Utterance

OLD = Memory(
    ("## Goal", "Keep the pumps."),
    (
        Pin(2, Kind.RULE, "Never above 4 bar.", "u1"),
        Pin(4, Kind.QUOTATION, "P-7 showed 3 bar.", "a1", Speaker.ASSISTANT, replaced_by=7),
        Pin(7, Kind.QUOTATION, "P-7 showed 2 bar.", "a3", Speaker.ASSISTANT),
    ),
)


def test_a_text_that_stands_there_keeps_its_number_and_source_and_another_one_is_the_operators() -> None:
    new = correct_memory(OLD, None, [" First\n\n## one ", "Never above 4 bar.", "First ## one"], ["P-7 showed 3 bar."])

    shown = [pin for pin in new.pins if not pin.replaced_by]
    assert [(pin.number, pin.kind, pin.text, pin.source) for pin in shown] == [
        (2, Kind.RULE, "Never above 4 bar.", "u1"),
        (8, Kind.RULE, "First ## one", "operator"),
        (9, Kind.QUOTATION, "P-7 showed 3 bar.", "operator"),
    ]
    assert new.state == OLD.state


def test_of_the_kind_that_is_given_what_is_left_out_goes_and_a_replaced_pin_stays() -> None:
    assert correct_memory(OLD, None, None, []).pins == OLD.pins[:2]
    assert correct_memory(OLD, None, []).pins == OLD.pins[1:]


def test_a_state_is_stored_in_one_form_however_its_heads_and_items_are_marked() -> None:
    new = correct_memory(OLD, "# Goal\n\nKeep  the pumps.\n**Open:**\n* Who pays?")

    assert new == replace(OLD, state=("## Goal", "Keep the pumps.", "## Open", "- Who pays?"))


def test_a_forgotten_sentence_goes_from_the_talk_and_the_rest_stays() -> None:
    talk = tuple(Utterance(3, place, Speaker.USER, f"Sentence {place}.", "u3") for place in (1, 2))
    old = replace(OLD, talk=talk, heard=3)

    new = correct_memory(old, forget=["3.1"])

    assert new == replace(old, talk=talk[1:])


def test_a_forgotten_sentence_stands_no_longer_above_the_items_of_its_list() -> None:
    head, item = (Utterance(3, place, Speaker.USER, text, "u3") for place, text in ((1, "I order:"), (2, "Seals.")))
    old = replace(OLD, talk=(head, replace(item, context=head.text)), heard=3)

    assert correct_memory(old, forget=["3.1"]).talk == (item,)


def test_a_state_that_is_given_to_a_summary_by_code_makes_nothing_that_was_said_newer() -> None:
    said = Utterance(3, 1, Speaker.USER, "We order seals.", "u3")
    by_code = Memory(talk=(said,), heard=3)
    by_a_model = replace(by_code, state=("Old.",), told=2)

    assert not room.fit_memory(correct_memory(by_code, "## Goal\nOrder valves."), 400).is_since
    assert room.fit_memory(correct_memory(by_a_model, "## Goal\nOrder valves."), 400).is_since


def test_a_summary_of_one_word_is_left_and_one_of_none_is_refused() -> None:
    check_summary(Parts(talk=("user: Well.",)), 80, owns_state=False, before=0, covered=900, window=8192)
    with pytest.raises(Unprocessable, match="nothing would be left"):
        check_summary(Parts(talk=("user: …",)), 80, owns_state=False, before=900, covered=900, window=8192)


def test_a_state_that_has_no_room_is_refused_and_not_cut() -> None:
    parts = Parts(state=("### Goal", "Well."), given_up=("Better.",))
    with pytest.raises(Unprocessable, match="1 lines of the state have no room"):
        check_summary(parts, 80, owns_state=True, before=0, covered=900, window=8192)
    check_summary(parts, 80, owns_state=False, before=0, covered=900, window=8192)


def test_a_sentence_that_is_not_there_is_refused_with_its_place() -> None:
    old = replace(OLD, talk=(Utterance(1, 1, Speaker.USER, "Well.", "u1"),))

    with pytest.raises(Unprocessable) as refused:
        correct_memory(old, forget=["1.1", "1.2"])

    assert refused.value.extensions.get("pointer") == "/forget/1"


@pytest.mark.parametrize(
    ("state", "rules", "pointer"),
    [
        (None, None, None),
        ("", None, "/state"),
        ("## State\n", None, "/state"),
        ("x" * 100_001, None, "/state"),
        (None, ["x", " \n "], "/rules/1"),
        (None, ["x" * 2001], "/rules/0"),
        (None, ["x\0"], "/rules/0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(
    state: str | None, rules: list[str] | None, pointer: str | None
) -> None:
    with pytest.raises(Unprocessable) as refused:
        correct_memory(OLD, state, rules)

    assert refused.value.extensions.get("pointer") == pointer


@pytest.mark.parametrize(
    ("size", "before", "covered", "window", "fits"),
    [
        (2730, 100, 9000, 8192, True),  # a third of the window
        (2731, 100, 9000, 8192, False),
        (500, 100, 500, 8192, False),  # it would save nothing
        (3000, 3000, 9000, 8192, True),  # as large as it was
        (3001, 3000, 9000, 8192, False),
    ],
)
def test_a_correction_leaves_room(size: int, before: int, covered: int, window: int, fits: bool) -> None:
    parts = Parts(state=("### Goal", "Well."))
    sizes = {"before": before, "covered": covered, "window": window}
    if fits:
        check_summary(parts, size, owns_state=True, **sizes)
    else:
        with pytest.raises(Unprocessable, match=f"{size} tokens"):
            check_summary(parts, size, owns_state=True, **sizes)
