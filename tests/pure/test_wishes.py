"""Wishes become pins of their own, which only the user takes away."""

from dataclasses import replace

import pytest

from service.errors import Unprocessable
from service.summarising.kept.pins import merge
from service.summarising.kept.wishes import LONGEST, wish, wished
from service.summarising.memory import WISH, Kind, Memory, Pin
from service.summarising.reply import answer
from service.summarising.utterances import Speaker, Utterance

GOAL = Pin(4, Kind.GOAL, "Ship it in May.", "m1", replaced_by=7)
OLD = Memory(pins=(GOAL,), heard=3)


def test_a_wish_is_a_constraint_of_the_user_with_a_number_that_nothing_had() -> None:
    (_, pin) = wished(OLD, ["Keep the dates."]).pins

    assert pin == Pin(8, Kind.CONSTRAINT, "Keep the dates.", WISH)
    assert pin.speaker is Speaker.USER


def test_the_same_wishes_change_nothing_and_others_keep_their_numbers() -> None:
    once = wished(OLD, ["a", "b"])

    assert wished(once, ["b", "a", "b"]) is once
    assert wished(OLD, []) is OLD
    assert wished(once, ["b", "c"]).pins[1:] == (once.pins[2], Pin(10, Kind.CONSTRAINT, "c", WISH))


def test_what_a_summariser_made_of_a_wish_is_undone() -> None:
    once = wished(OLD, ["a"])
    spoilt = replace(once, pins=(GOAL, replace(once.pins[1], kind=Kind.FACT, replaced_by=9)))

    assert wished(spoilt, ["a"]) == once


def test_a_summariser_neither_drops_nor_replaces_a_wish_nor_makes_less_of_it() -> None:
    pins = wished(OLD, ["Answer in French."]).pins
    said = [Utterance(9, 1, Speaker.USER, "Answer in English.", "m9")]
    reply = answer.parse(
        "## Constraints and preferences\n- [9.1] Answer in English.\n\n## Facts and values\n- P8 Answer in French.\n\n"
        "## Replaced\n- P8 by 9.1\n\n## Drop\n- P8"
    )
    assert reply.keeps

    merged = merge(pins, said, reply).pins

    assert pins[1] in merged
    assert merged[-1].text == "Answer in English."


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b", "x" * (LONGEST + 1)])
def test_nothing_and_too_much_are_refused(text: str) -> None:
    with pytest.raises(Unprocessable):
        wish(text, mask=True)


def test_it_is_stored_on_one_line_without_what_nobody_sees() -> None:
    assert wish(" Keep\r\n the\u200b dates. ", mask=True) == "Keep the dates."
