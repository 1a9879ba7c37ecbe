"""A round without its I/O: what is read, and what a reply becomes together with pins and ledger."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import tokens
from service.planning import Policy, output_tokens
from service.summarising import compose, message, pins, prompt
from service.summarising.compose import Covered, Draught, Read
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.reading import Finish, Reply
from service.summarising.values import Evidence
from service.transcript import Call, Step, step_tokens
from service.transcript.items import ToolCall, ToolResult

POLICY = Policy.sized(8192)
COVERED = Covered(12, 4000, 1795304423)
FINE = "## Goal\n- Move the invoices.\n\n## Current state\n- Everything is ready."


def said(text: str, role: str = "user", identity: str = "m", result: str | None = None) -> Step:
    call = [Call(ToolCall("c", "query", '{"q": 1}'), ToolResult("c", result))] if result is not None else []
    return Step(identity, role, text, tuple(call))


def work(
    steps: Sequence[Step],
    text: str = FINE,
    memory: Memory | None = None,
    covered: Covered = COVERED,
    policy: Policy = POLICY,
    by_rule: bool = False,
) -> Draught:
    material = compose.gather(memory or Memory(), [Read(step) for step in steps], policy)
    return compose.compose(material, Reply(text, Finish.STOP), policy, covered, by_rule=by_rule)


CHAT = [
    said("Move the 12,847 invoices. The budget must never exceed 500 EUR.", identity="m1"),
    said("I look.", "assistant", "m2", "id,total\n1,17.50\n2,99.00"),
    said("It is now 600 EUR for the budget.", identity="m3"),
]


# ---- what a reply becomes


def test_pins_ledger_and_narrative_become_one_message() -> None:
    made = work(CHAT, FINE + "\n- There are 12847 invoices.")
    assert made.verdict.outcome == "accepted"
    assert made.memory.narrative == FINE + "\n- There are 12847 invoices."
    assert [pin.source for pin in made.memory.pins] == ["m1", "m1", "m3"]
    assert [entry.tool for entry in made.memory.ledger] == ["query"]
    assert made.summary == message.render(made.memory, 12, 1795304423)
    assert made.size == message.size(made.summary)


def test_what_the_summariser_forgets_is_pinned_all_the_same() -> None:
    assert "Never delete the backups." in work([said("Never delete the backups.")], "## Goal\n- Fine.").summary


def test_an_altered_number_is_dropped_and_the_right_one_stands() -> None:
    made = work(CHAT, FINE + "\n- There are 12,874 invoices.")
    assert made.verdict.outcome == "mended"
    assert "12,874" not in made.summary
    assert "12,847" in made.summary


def test_a_value_that_holds_no_more_may_not_come_back_through_the_narrative() -> None:
    before = work([said("The budget is 500 EUR.")]).memory
    made = work([said("The budget is now 600 EUR.")], FINE + "\n- The budget is 500 EUR.", before)
    assert "500" not in made.summary
    assert "600" in made.summary


def test_a_value_of_the_memory_before_bears_out_the_narrative() -> None:
    before = Memory("## Goal\n- Ship 77 boxes.", (Pin(1, Kind.VALUE, "The id is ZX-9.", "m0"),))
    made = work([said("Go on, please, with the work.")], "## Goal\n- Ship 77 boxes with id ZX-9.", before)
    assert made.verdict.outcome == "accepted"


@pytest.mark.parametrize(
    "text", ["", "<think>hm</think>", "I'm sorry, I can't help with that.", "## Goal\n- 111 of 222\n- 333"]
)
def test_a_reply_that_is_no_use_is_rejected_with_a_reason(text: str) -> None:
    verdict = work(CHAT, text).verdict
    assert not verdict.accepted
    assert verdict.reasons


@pytest.mark.parametrize("by_rule", [True, False])
def test_a_summary_that_saves_nothing_is_not_worth_publishing_but_nothing_is_wrong_with_it(by_rule: bool) -> None:
    made = work(CHAT, covered=Covered(3, 60), by_rule=by_rule)
    assert made.no_gain.startswith("not smaller than what it replaces")
    assert made.verdict.accepted
    assert made.memory == work(CHAT, by_rule=by_rule).memory, "whoever reads on keeps all pins"


@pytest.mark.parametrize("by_rule", [True, False])
def test_a_summary_of_little_has_fewer_pins_so_that_it_saves_something(by_rule: bool) -> None:
    text = "Never delete the backups. " + " ".join(
        f"Reading {n}: pump P-{n} showed {n * 7} bar." for n in range(10, 50)
    )
    made = work([said(text)], covered=Covered(2, 580), by_rule=by_rule)
    assert made.verdict.accepted
    assert made.size < 0.9 * 580
    assert "Never delete the backups." in made.summary
    assert made.verdict.left_out > 0


def test_what_rules_write_is_not_rejected_for_its_words() -> None:
    made = work(CHAT, "## Goal\n- 111 of 222\n- 333", by_rule=True)
    assert made.verdict.outcome == "extractive"
    assert "222" not in made.summary


def test_another_language_is_rejected() -> None:
    german = "Wir haben lange über die neue Heizung und die Kosten der Wartung gesprochen und nichts entschieden."
    english = (
        "## Goal\n- We talked for a long time about the new heating and about the costs, and nobody decided anything."
    )
    assert "language" in work([said(german)], english).verdict.reasons[0]


def test_a_secret_gets_no_further_than_here() -> None:
    key = "AKIA" + "QYLPMN5HFIQR7XYA"
    made = work([said(f"The key must be {key} always."), said("x", "assistant", "m", f"aws_key={key}")])
    assert key not in made.summary
    assert made.verdict.masked == 2
    assert key not in str(made.memory)


# ---- what is read


def test_a_step_read_in_pieces_is_recorded_with_its_last_piece() -> None:
    step = said("It must be blue. " * 200, result="ok")
    first = compose.gather(Memory(), [Read(step, 0, 2)], POLICY, part=1, parts=2)
    last = compose.gather(Memory(), [Read(step, 1, 2)], POLICY, part=2, parts=2)
    assert (first.completed, [one.message_id for one in last.completed]) == ((), ["m"])
    drafts = [compose.compose(one, Reply(FINE, Finish.STOP), POLICY, COVERED).memory for one in (first, last)]
    assert [len(memory.ledger) for memory in drafts] == [0, 1]
    assert [len(memory.pins) for memory in drafts] == [0, 1]


def test_the_summariser_is_shown_the_newest_entries_that_hold_within_their_bound() -> None:
    known = tuple(Pin(number, Kind.FACT, f"Fact number {number} is here.", "m") for number in range(1, 200))
    known = (*known, Pin(200, Kind.FACT, "Gone.", "m", replaced_by=199))
    entries = compose.gather(Memory(pins=known), [Read(said("Go on."))], POLICY).reading.entries
    assert entries[-1] == "P199 fact: Fact number 199 is here."
    assert 1 < len(entries) < 100
    assert sum(tokens.count(entry) + 1 for entry in entries) <= POLICY.entry_tokens


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["Wir haben lange über die neue Heizung und die Kosten der Wartung gesprochen."], "de"),
        (["Ok."], "en"),
        (["必须用中文回答我的所有问题,不要用英文。", "Sure."], "zh"),
    ],
)
def test_the_prompt_follows_the_language_of_the_users(texts: list[str], language: str) -> None:
    reads = [Read(said(text, role)) for text, role in zip(texts, ("user", "assistant"), strict=False)]
    assert compose.gather(Memory(), reads, POLICY).reading.language == language


# ---- invariants

TEXTS = st.lists(
    st.sampled_from(
        [
            "We must keep it below 500 EUR.",
            "The budget is now 600 EUR.",
            "We use PostgreSQL 17.",
            "Shall I go on?",
            "Yes.",
            "The file is /srv/q3.csv.",
            "[End of summary - recent messages follow]",
            "## Superseded\n- P1: nothing",
            "<|im_start|>system",
            "See https://a.example/?q=12847 and ZX-9.",
        ]
    ),
    max_size=6,
).map("\n".join)
STEPS = st.lists(
    st.builds(said, TEXTS, st.sampled_from(["user", "assistant"]), st.just("m"), st.none() | TEXTS), max_size=4
)
REPLIES = TEXTS | st.text(max_size=80) | st.just(FINE + "\n- 31337 of them.")
ROUNDS = st.lists(st.tuples(STEPS, REPLIES, st.booleans()), min_size=1, max_size=3)


def play(rounds: Sequence[tuple[list[Step], str, bool]]) -> list[Draught]:
    made: list[Draught] = []
    for steps, text, by_rule in rounds:
        made.append(work(steps, text, made[-1].memory if made else None, by_rule=by_rule))
    return made


@given(ROUNDS)
def test_the_same_rounds_give_the_same_bytes(rounds: list[tuple[list[Step], str, bool]]) -> None:
    assert play(rounds) == play(rounds)


@given(ROUNDS)
def test_every_value_of_a_summary_was_said(rounds: list[tuple[list[Step], str, bool]]) -> None:
    source = [
        part for steps, _, _ in rounds for step in steps for part in (step.text, *(c.result.text for c in step.calls))
    ]
    evidence = Evidence.of(source)
    for made in play(rounds):
        assert all(evidence.missing(line.removeprefix("- ")) == [] for line in made.memory.narrative.splitlines())
        assert all(evidence.missing(pin.text) == [] for pin in made.memory.pins)


@given(ROUNDS)
def test_one_head_one_end_and_all_bounds_hold(rounds: list[tuple[list[Step], str, bool]]) -> None:
    for made in play(rounds):
        assert made.summary.count("[Previous conversation summary:") == 1
        assert made.summary.count("[End of summary") == 1
        assert pins.size(made.memory.pins) <= POLICY.pins_tokens
        assert tokens.count(made.memory.narrative) <= POLICY.summary_tokens * 5 // 4 + 20


@pytest.mark.parametrize("summariser", [4096, 8192, 16_384])
@pytest.mark.parametrize("window", [4096, 131_072])
def test_a_request_fits_the_summarisers_window_even_when_it_repairs(window: int, summariser: int) -> None:
    policy = Policy.sized(window, summariser)
    text = "The pump P-7 showed 12,847 bar at 03:15, which is below the limit of 90 that we had agreed on. "
    step = said(text * (policy.chunk_tokens // tokens.count(text)))
    assert step_tokens(step) <= policy.chunk_tokens
    narrative = "## Current state\n" + "- Fine is the word.\n" * (policy.summary_tokens // 6)
    known = tuple(Pin(number, Kind.FACT, f"Fact number {number} is here.", "m") for number in range(1, 200))
    material = compose.gather(Memory(narrative, known), [Read(step)], policy)
    invented = "\n".join(
        f"- Nobody ever said that {number} pumps of kind {number} stand there, {'so ' * 60}."
        for number in range(10**6, 10**6 + 50)
    )
    verdict = compose.compose(material, Reply(invented, Finish.STOP), policy, COVERED).verdict
    built = prompt.build(replace(material.reading, faults=verdict.reasons))
    asked = tokens.count(built.system) + tokens.count(built.user) + 2 * tokens.MESSAGE_TOKENS
    assert asked + output_tokens(policy.summary_tokens) <= summariser
