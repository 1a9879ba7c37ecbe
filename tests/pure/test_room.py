"""What of a memory has room: the state before all, then the rules, and no talk that a state tells."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising import heads, message, room
from service.summarising.ledger import Entry
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.utterances import Speaker
from service.text import tokens
from tests.pure.talks import talk


def pin(number: int, text: str, kind: Kind = Kind.RULE, speaker: Speaker = Speaker.USER) -> Pin:
    return Pin(number, kind, text, "m", speaker, utterance=f"90.{number}")


TALK = tuple(
    talk("Shall we move the 12,847 invoices of ACME to the archive?", "The archive of ACME.", "The archive is in Oslo.")
)
STATE = ("## Goal", "The invoices of ACME move to the archive.", "## Open", "- Who pays for the archive?")
ENTRY = Entry(1, 1, "look_up", "id=7", ("3 rows", "columns: id, total"))
WHOLE = Memory(
    state=STATE,
    pins=(
        pin(1, "Never above 4 bar."),
        pin(2, "We meet in the Grand Hotel on 3 May.", Kind.QUOTATION, Speaker.ASSISTANT),
        replace(pin(3, "At most 5 bar."), replaced_by=1),
    ),
    talk=TALK,
    ledger=(ENTRY,),
    heard=3,
    told=3,
)


def test_with_room_for_all_everything_stands_in_its_part_and_what_was_replaced_does_not() -> None:
    parts = room.fit_memory(WHOLE, 1000)
    assert parts.front.rules == ("Never above 4 bar.",)
    assert parts.state == ("### Goal", STATE[1], "### Open", STATE[3])
    assert parts.front.quotations == ("assistant: We meet in the Grand Hotel on 3 May.",)
    assert parts.calls == ("- T1 look_up",)
    assert parts.left_out == 0


def record(memory: Memory) -> str:
    return message.render(room.fit_memory(memory, 1000), 12, None)


def grown(front: Memory, *pins: Pin) -> Memory:
    """What a reply makes of a memory that has been shown: another state, and these pins besides."""
    shown = room.fit_memory(front, 1000).front_names
    return replace(front, state=("## Goal", "All is done."), pins=(*front.pins, *pins), front=shown)


def test_what_stood_in_front_of_a_state_stays_there_and_what_is_newer_stands_behind_it() -> None:
    before = record(WHOLE)
    after = record(grown(WHOLE, pin(4, "Call Vicent first.")))
    in_front = before.partition(heads.STATE)[0]
    assert "Never above 4 bar." in in_front
    assert "Grand Hotel" in in_front
    assert after.startswith(in_front)
    assert after.index("All is done.") < after.index(heads.NEWER_RULES) < after.index("Call Vicent first.")


def test_a_call_that_a_later_one_went_on_from_stands_in_front_and_the_number_of_others_at_the_end() -> None:
    used = Entry(1, 1, "look_up", "", ("id: 12847",))
    after = Entry(2, 2, "open", "12847", ("fine",))
    shown = record(replace(WHOLE, ledger=(used, after)))
    assert shown.index("T1 look_up() → id: 12847") < shown.index(heads.STATE) < shown.index("T2 open")


@pytest.mark.parametrize(
    "memory",
    [
        grown(WHOLE, *(pin(number, f"Call the plumber {number} first.") for number in range(4, 9))),
        replace(
            grown(WHOLE, pin(4, "At most 6 bar.")),
            pins=(replace(WHOLE.pins[0], replaced_by=4), WHOLE.pins[1], pin(4, "At most 6 bar.")),
        ),
    ],
    ids=["when newer ones are more", "when one of those in front is replaced"],
)
def test_all_that_is_kept_is_put_in_front_anew(memory: Memory) -> None:
    parts = room.fit_memory(memory, 1000)
    assert not parts.newer.lines
    assert parts.front.rules == tuple(one.text for one in memory.rules)


def test_with_what_is_newer_behind_a_state_a_record_keeps_to_its_room() -> None:
    rules = tuple(pin(number, f"No chair stands in hall {number} of the old mill after nine.") for number in (1, 2, 3))
    quoted = tuple(pin(number, f"Bar {number}.", Kind.QUOTATION) for number in range(10, 15))
    since = tuple(talk("It is. " * 60, "So it is. " * 60))
    memory = replace(grown(Memory(state=STATE, pins=rules), pin(4, "Call Vicent."), *quoted), talk=since)
    for size in range(80, 300):
        parts = room.fit_memory(memory, size)
        text = message.add_checkpoint_id(message.render(parts, 10**6, 1795304423), 10**9)
        assert message.count_tokens(text) <= size + message.FRAME_TOKENS, parts
    assert parts.newer.rules == ("Call Vicent.",)


def test_rules_stand_whatever_their_age_and_the_longest_go_first() -> None:
    rules = [pin(number, f"Rule {number} says that pump {number} stays below {number} bar.") for number in range(1, 40)]
    longest = pin(0, "The invoices of ACME move to the archive." * 4)
    parts = room.fit_memory(Memory(state=STATE, pins=(longest, *rules)), 400)
    assert longest.text not in parts.front.rules
    assert parts.state
    assert parts.left_out == 40 - len(parts.front.rules)


def test_of_quotations_the_oldest_go_first() -> None:
    said = [pin(number, f"Word {number} of the {number} wise.", Kind.QUOTATION) for number in range(1, 60)]
    shown = room.fit_memory(Memory(pins=tuple(said)), 200).front.quotations
    assert shown[-1] == "Word 59 of the 59 wise."
    assert "Word 1 of the 1 wise." not in shown


def test_no_number_of_quotations_pushes_a_rule_out() -> None:
    rule, *quotations = (pin(0, "Never above 4 bar."), *(pin(n, f"Bar {n}.", Kind.QUOTATION) for n in range(1, 500)))
    kept = room.trim_memory(Memory(pins=(rule, *quotations)), 1000).pins
    assert (len(kept), kept[0]) == (400, rule)


def test_a_state_that_is_too_long_loses_lines_and_heads_without_one() -> None:
    state = ("## A", "Pump 7001 runs.", "## B", " ".join(["Well."] * 200), "## C", "Pump 8002 stands.")
    parts = room.fit_memory(Memory(state=state), 120)
    assert (parts.state[:2], parts.state[-2:]) == (("### A", state[1]), ("### C", state[-1]))
    assert parts.given_up == (state[3],)
    assert room.fit_memory(Memory(state=state), 38).state == ("### A", state[1], "### C", state[-1])


def test_what_two_lines_say_stands_once() -> None:
    twice = "close Murta Street to traffic"
    state = ("## Done", f"- {twice}", "## Open", f"- {twice}", "- Ask Vicent for chairs.")
    parts = room.fit_memory(Memory(state=state), 40)
    assert parts.given_up == (twice,)
    assert parts.state[-1] == "- Ask Vicent for chairs."


def test_of_a_state_that_is_too_long_a_draft_of_up_to_half_the_room_stays_whole() -> None:
    code = ("```", "Dear all, it is as it was, and it will be as it is.", "All is well, and all will be well.", "```")
    told = [f"- Pump {number} runs at {number + 100} bar in hall {number + 200}." for number in range(7001, 7009)]
    state = (*told, *code)
    assert room.fit_memory(Memory(state=state), 120).state[-4:] == code
    assert "```" not in room.fit_memory(Memory(state=state), 40).state


def test_the_talk_that_is_stored_is_bounded() -> None:
    long = tuple(talk(*(f"Number {number} is the {number}th." for number in range(500))))
    kept = room.trim_memory(Memory(talk=long), 100).talk
    assert 0 < sum(tokens.count(one.text) for one in kept) <= 300


SAID = st.lists(st.text("abc 12.,?", min_size=3, max_size=80), min_size=1, max_size=6)
PINS = st.lists(st.tuples(st.text("abc 12", min_size=1, max_size=60), st.sampled_from(list(Kind))), max_size=5)


@given(SAID, PINS, st.lists(st.text("abc #-12", max_size=60), max_size=4), st.integers(64, 2400))
def test_any_memory_fits_its_room(said: list[str], chosen: list[tuple[str, Kind]], state: list[str], size: int) -> None:
    pins = tuple(pin(number, text, kind) for number, (text, kind) in enumerate(chosen, 1))
    memory = Memory(tuple(line for line in state if line.strip()), pins, tuple(talk(*said)), (ENTRY,))
    parts = room.fit_memory(memory, size)
    assert message.count_tokens(message.render(parts, 3, 1)) <= size + message.FRAME_TOKENS + 8


@given(st.lists(st.sampled_from(["Yes.", "It is P-7.", "We meet at noon.", "Why?"]), min_size=1), st.integers(64, 400))
def test_any_talk_is_shown_in_any_room_that_one_sentence_fits(said: list[str], size: int) -> None:
    assert room.fit_memory(Memory(talk=tuple(talk(*said))), size).talk
