"""A summary corrected by hand: which pins keep their number and source, what stays, and what is refused."""

from dataclasses import replace

import pytest
from service.summarising.kept.record import Record

from service.errors import Unprocessable
from service.summarising import message
from service.summarising.correction import GivenPin, check, corrected
from service.summarising.memory import Kind, Memory, Paragraph, Pin, Section
from service.summarising.message import Rendered
from service.summarising.utterances import Speaker, Utterance

OLD = Memory(
    (Paragraph(Section.GOAL, ("Keep the pumps.",)),),
    (
        Pin(2, Kind.CONSTRAINT, "Never above 4 bar.", "u1"),
        Pin(4, Kind.VALUE, "P-7 showed 3 bar.", "a1", Speaker.ASSISTANT, replaced_by=7),
        Pin(7, Kind.VALUE, "P-7 showed 2 bar.", "a3", Speaker.ASSISTANT),
    ),
)


def test_a_known_pin_keeps_its_number_its_source_and_who_said_it() -> None:
    new = corrected(OLD, None, [GivenPin(Kind.FACT, "P-7 showed 1 bar.", 7)])

    assert new.pins[-1] == Pin(7, Kind.FACT, "P-7 showed 1 bar.", "a3", Speaker.ASSISTANT)
    assert new.narrative == OLD.narrative


def test_new_pins_get_the_next_numbers_in_their_order() -> None:
    given = [GivenPin(Kind.GOAL, "First."), GivenPin(Kind.CONSTRAINT, "Known.", 2), GivenPin(Kind.GOAL, "Second.")]

    shown = [pin for pin in corrected(OLD, None, given).pins if not pin.replaced_by]

    assert [(pin.number, pin.text, pin.source) for pin in shown] == [
        (2, "Known.", "u1"),
        (8, "First.", "operator"),
        (9, "Second.", "operator"),
    ]


def test_a_pin_that_is_left_out_goes_and_a_superseded_one_stays() -> None:
    assert corrected(OLD, None, []).pins == (OLD.pins[1],)


def test_a_superseded_pin_that_is_given_holds_again() -> None:
    new = corrected(OLD, None, [GivenPin(Kind.VALUE, "P-7 showed 3 bar.", 4)])

    assert new.pins == (Pin(4, Kind.VALUE, "P-7 showed 3 bar.", "a1", Speaker.ASSISTANT),)


def test_a_pin_is_one_line() -> None:
    new = corrected(OLD, None, [GivenPin(Kind.GOAL, " one\n\n## Goal\ttwo ")])

    assert new.pins[-1].text == "one ## Goal two"


def test_lines_under_no_head_are_the_current_state() -> None:
    new = corrected(OLD, "All is well.", None)

    assert new.narrative == (Paragraph(Section.STATE, ("All is well.",)),)


def test_a_forgotten_sentence_goes_from_the_talk_and_the_rest_stays() -> None:
    talk = tuple(Utterance(3, place, Speaker.USER, f"Sentence {place}.", "u3") for place in (1, 2))
    old = replace(OLD, talk=talk, heard=3)

    new = corrected(old, None, None, ["3.1"])

    assert new == replace(old, talk=talk[1:])


def test_a_summary_of_one_word_is_left_and_one_of_none_is_refused() -> None:
    assert check(message.render((), Record(talk=("user: Well.",)), 2, None), before=0, covered=900, window=8192) > 0
    with pytest.raises(Unprocessable, match="nothing would be left"):
        check(message.render((), Record(), 2, None), before=900, covered=900, window=8192)


def test_a_sentence_that_is_not_there_is_refused_with_its_place() -> None:
    old = replace(OLD, talk=(Utterance(1, 1, Speaker.USER, "Well.", "u1"),))

    with pytest.raises(Unprocessable) as refused:
        corrected(old, None, None, ["1.1", "1.2"])

    assert refused.value.extensions.get("pointer") == "/forget/1"


@pytest.mark.parametrize(
    ("narrative", "pins", "pointer"),
    [
        (None, None, None),
        ("", None, "/narrative"),
        (" \n", [], "/narrative"),
        ("## Current state\n", None, "/narrative"),
        ("## Constraints\n- Never above 5 bar.", None, "/narrative"),
        ("drop: P2", None, "/narrative"),
        ("x" * 100_001, None, "/narrative"),
        ("x\n" * 401, None, "/narrative"),
        ("\0", None, "/narrative"),
        (None, [GivenPin(Kind.GOAL, "x")] * 501, "/pins"),
        (None, [GivenPin(Kind.GOAL, "x", 2), GivenPin(Kind.GOAL, "y", 2)], "/pins/1/number"),
        (None, [GivenPin(Kind.GOAL, "x", 3)], "/pins/0/number"),
        (None, [GivenPin(Kind.GOAL, "x"), GivenPin(Kind.GOAL, "y", 8)], "/pins/1/number"),
        (None, [GivenPin(Kind.GOAL, " \n ")], "/pins/0/text"),
        (None, [GivenPin(Kind.GOAL, "x" * 2001)], "/pins/0/text"),
        (None, [GivenPin(Kind.GOAL, "x\0")], "/pins/0/text"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(
    narrative: str | None, pins: list[GivenPin] | None, pointer: str | None
) -> None:
    with pytest.raises(Unprocessable) as refused:
        corrected(OLD, narrative, pins)

    assert refused.value.extensions.get("pointer") == pointer


@pytest.mark.parametrize(
    ("size", "before", "covered", "window", "fits"),
    [
        (2730, 100, 9000, 8192, True),  # a third of the window
        (2731, 100, 9000, 8192, False),
        (499, 100, 500, 8192, True),
        (500, 100, 500, 8192, False),  # it would save nothing
        (3000, 3000, 9000, 8192, True),  # as large as it was
        (3001, 3000, 9000, 8192, False),
    ],
)
def test_a_correction_leaves_room(size: int, before: int, covered: int, window: int, fits: bool) -> None:
    words = "word " * (size - message.size(Rendered("head\n\n## Goal\n- \n\nend")))
    rendered = Rendered(f"head\n\n## Goal\n- {words}\n\nend")
    if fits:
        assert check(rendered, before=before, covered=covered, window=window) == size
    else:
        with pytest.raises(Unprocessable, match=f"{size} tokens"):
            check(rendered, before=before, covered=covered, window=window)
