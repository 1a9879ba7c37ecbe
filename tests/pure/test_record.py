"""The record: what stands beside a narrative within so many tokens, and what waits for more room."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from service.summarising.kept.record import fitted, lines, recorded, stored
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.utterances import Utterance
from service.text import tokens
from tests.effort import examples
from tests.pure.talks import talk

GARDEN = talk(
    "The budget of the garden is 4,200 EUR. I like roses. The gate must stay open.",
    "The garden has room for 40 roses. Shall I order them?",
    "Yes.",
    "Ordered. The number of the order is RS-1187.",
    "The budget went up, it is 5,100 EUR.",
)
ALL = 1000
SPARE = 3


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


SENTENCES = st.sampled_from(
    [
        "Yes.",
        "Thank you, that is all fine by me.",
        "The part {n} of pump P-{n} costs 4,{n} EUR.",
        "Never switch the pump {n} off before the evening, whoever asks for it.",
        "Take to the camp of the {n} scouts at the lake, as we said on Monday:\n- {n} tents\n- a rope\n- salt",
        "Shall I order {n} of them?",
        "请在11月{n}日之前把泵站修好。",
        "Насос номер {n} стоит в подвале, и его надо починить.",
        "The long story of the valve {n} is that it was mounted, taken off, "
        + "mended and mounted again, " * 12
        + "ok.",
        "```python\ntotal = price * {n}\nprint(total)\n```",
    ]
)
DAYS = st.integers(1, 40).map(lambda day: 1_795_000_000 + 86_400 * day)


@st.composite
def talks(draw: st.DrawFn, most: int = 40) -> list[Utterance]:
    """What was said in up to so many messages, on some days."""
    steps = draw(st.lists(st.lists(SENTENCES, min_size=1, max_size=5), min_size=1, max_size=most))
    told = talk(*("\n".join(said).replace("{n}", str(place)) for place, said in enumerate(steps, 100)))
    days = sorted(draw(st.lists(DAYS, min_size=len(steps), max_size=len(steps))))
    return [replace(one, at=days[one.step - 1]) for one in told]


def size(shown: Sequence[Utterance]) -> int:
    """Tokens of an answer's lines with their list marks and line breaks."""
    return sum(tokens.count(line) + 3 for line in lines(shown, {}))


@settings(max_examples=examples(400), deadline=None)
@given(talks(), st.integers(64, 4000))
def test_any_talk_of_which_a_sentence_fits_is_shown_in_any_room(said: list[Utterance], room: int) -> None:
    made = recorded(Memory(talk=tuple(said)), room)
    assert made.talk or all(tokens.count(line) + 30 > room for line in lines(said, {}))
    assert tokens.count("\n".join(made.talk)) <= room


@settings(max_examples=examples(200), deadline=None)
@given(talks(12), st.integers(64, 4000) | st.integers(64, 400))
def test_any_room_shows_so_much_of_a_talk_that_nothing_left_out_fits_with_tokens_to_spare(
    said: list[Utterance], room: int
) -> None:
    shown = fitted(said, {}, room)

    assert size(shown) <= room
    for place, one in enumerate(said):
        if one not in shown:
            more = [two for two in said[: place + 1] if two in shown or two is one]
            more += [two for two in said[place + 1 :] if two in shown]
            assert size(more) > room - SPARE, one.text


@settings(max_examples=examples(100), deadline=None)
@given(talks(), st.integers(64, 4000), st.integers(64, 4000))
def test_a_larger_room_shows_not_less_but_for_what_one_sentence_takes(
    said: list[Utterance], one: int, other: int
) -> None:
    small, large = (fitted(said, {}, room) for room in sorted((one, other)))
    left_out = [size([one]) for one in said if one not in large]
    assert size(large) + min(left_out, default=0) >= size(small)
