"""The record: what stands beside a narrative within so many tokens, and what waits for more room."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from service.summarising.kept.record import recorded, stored
from service.summarising.memory import Kind, Memory, Pin
from service.text import tokens
from tests.pure.talks import talk

GARDEN = talk(
    "The budget of the garden is 4,200 EUR. I like roses. The gate must stay open.",
    "The garden has room for 40 roses. Shall I order them?",
    "Yes.",
    "Ordered. The number of the order is RS-1187.",
    "The budget went up, it is 5,100 EUR.",
)
ALL = 1000


def pin(number: int, place: int, kind: Kind = Kind.CONSTRAINT) -> Pin:
    one = GARDEN[place]
    return Pin(number, kind, one.text, one.source, one.speaker, one.number)


def test_the_talk_stands_in_its_order_with_its_speakers() -> None:
    lines = recorded(Memory(talk=tuple(GARDEN)), ALL).talk
    assert [line.partition(":")[0] for line in lines] == ["user", "assistant", "user", "assistant", "user"]
    assert "I like roses. The gate must stay open." in lines[0]


def test_the_day_stands_where_it_changes() -> None:
    days = [1_795_304_423, 1_795_304_483, 1_795_404_423]
    dated = tuple(replace(one, at=days[min(one.step // 2, 2)]) for one in GARDEN)
    assert [line for line in recorded(Memory(talk=dated), ALL).talk if line.startswith("(")] == [
        "(2026-11-21)",
        "(2026-11-23)",
    ]


def test_an_earlier_value_stands_with_the_later_one() -> None:
    lines = recorded(Memory(talk=tuple(GARDEN)), ALL).talk
    assert "4,200 EUR. (later: The budget went up, it is 5,100 EUR.; 5.1)" in lines[0]
    shown = recorded(Memory(pins=(pin(1, 0),), talk=tuple(GARDEN)), ALL).pins
    assert shown[0][1].endswith("(later: The budget went up, it is 5,100 EUR.; 5.1)")


def test_what_was_chosen_stands_once() -> None:
    made = recorded(Memory(pins=(pin(1, 2),), talk=tuple(GARDEN)), ALL)
    assert [words for _, words in made.pins] == ["The gate must stay open."]
    assert not any("gate must" in line for line in made.talk)


def test_what_was_left_out_between_two_sentences_is_told() -> None:
    made = recorded(Memory(pins=(pin(1, 1),), talk=tuple(GARDEN)), ALL)
    assert "… The gate must stay open." in made.talk[0]


def test_a_question_stands_once_before_its_answer() -> None:
    whole = "\n".join(recorded(Memory(talk=tuple(GARDEN)), ALL).talk)
    assert whole.count("Shall I order them?") == 1
    answers = tuple(one for one in GARDEN if one.by_user)
    assert "user: (asked: Shall I order them?) Yes." in recorded(Memory(talk=answers), ALL).talk


def test_chosen_words_come_first_when_there_is_little_room() -> None:
    made = recorded(Memory(pins=(pin(1, 3, Kind.VALUE),), talk=tuple(GARDEN)), 24)
    assert [words for _, words in made.pins] == ["assistant: The garden has room for 40 roses."]


def test_what_finds_no_room_waits_in_the_memory() -> None:
    pinned = Memory(pins=tuple(pin(place + 1, place) for place in range(5)), talk=tuple(GARDEN))
    made = recorded(pinned, 30)
    assert made.left_out > 0
    assert stored(pinned, 30).pins == pinned.pins
    assert recorded(stored(pinned, 30), ALL) == recorded(pinned, ALL)


def test_the_talk_that_is_stored_is_bounded() -> None:
    long = Memory(talk=tuple(talk(*(f"The valve number {place} is leaking again." for place in range(300)))))
    kept = stored(long, 100)
    assert 10 < len(kept.talk) < 60
    assert set(kept.talk) <= set(long.talk)


@given(st.integers(0, 400), st.lists(st.integers(0, len(GARDEN) - 1), max_size=4, unique=True))
def test_a_record_fits_its_room(room: int, places: list[int]) -> None:
    pinned = tuple(pin(number, place) for number, place in enumerate(places, 1))
    made = recorded(Memory(pins=pinned, talk=tuple(GARDEN)), room)
    lines = [*(words for _, words in made.pins), *made.talk, *made.ledger]
    assert tokens.count("\n".join(lines)) <= room
