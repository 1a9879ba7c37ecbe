"""A round without its I/O: what is read, and what a reply becomes together with talk and ledger."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.policy import Policy, output_tokens
from service.summarising import compose, message, prompt
from service.summarising.compose import Candidate, Covered, Read
from service.summarising.gate import Verdict
from service.summarising.kept import pins
from service.summarising.memory import Kind, Memory, Paragraph, Pin, Section
from service.summarising.message import Rendered
from service.summarising.reading import Finish, Reply
from service.text import tokens
from service.text.values import Evidence
from service.transcript import Step, step_tokens
from tests.pure.talks import said

POLICY = Policy.sized(8192)
COVERED = Covered(12, 4000, 1795304423)
FINE = "## Goal\n- Move the invoices.\n\n## Current state\n- Everything is ready."


def work(
    steps: Sequence[Step],
    text: str | None = FINE,
    memory: Memory | None = None,
    covered: Covered = COVERED,
    policy: Policy = POLICY,
) -> Candidate:
    """What a reply becomes; without a text, what code makes alone."""
    material = compose.gather(memory or Memory(), [Read(step) for step in steps], policy)
    if text is None:
        return compose.by_rule(material, policy, covered)
    return compose.compose(material, Reply(text, Finish.STOP), policy, covered)


def lines(memory: Memory) -> list[str]:
    return [line for paragraph in memory.narrative for line in paragraph.lines]


CHAT = [
    said("Move the 12,847 invoices. The budget must never exceed 500 EUR.", identity="m1"),
    said("I look.", "assistant", "m2", "id,total\n1,17.50\n2,99.00"),
    said("It is now 600 EUR for the budget.", identity="m3"),
]


# ---- what a reply becomes


def test_narrative_choices_talk_and_ledger_become_one_message() -> None:
    made = work(CHAT, FINE + "\nkeep constraint: 1.2")
    assert made.verdict.outcome == "accepted"
    assert lines(made.memory) == ["Move the invoices.", "Everything is ready."]
    assert [(pin.kind, pin.text, pin.source) for pin in made.memory.pins] == [
        (Kind.CONSTRAINT, "The budget must never exceed 500 EUR.", "m1")
    ]
    assert [entry.tool for entry in made.memory.ledger] == ["query"]
    assert made.memory.heard == 3
    summary = made.rendered.summary
    places = [
        summary.index(part)
        for part in ("Move the invoices.", "never exceed 500 EUR. (later: It is now 600 EUR", "user: ", "- T1 query(")
    ]
    assert places == sorted(places)
    assert made.size == message.size(made.rendered)


@pytest.mark.parametrize("text", ["## Goal\n- Fine.", None])
def test_what_the_summariser_forgets_stands_all_the_same(text: str | None) -> None:
    assert "user: Never delete the backups." in work([said("Never delete the backups.")], text).rendered.summary


def test_an_altered_number_is_dropped_and_the_right_one_stands() -> None:
    made = work(CHAT, FINE + "\n- There are 12,874 invoices.")
    assert made.verdict.outcome == "trimmed"
    assert "12,874" not in made.rendered.summary
    assert "12,847" in made.rendered.summary


def test_only_the_model_removes_what_it_chose() -> None:
    before = work([said("The budget is 500 EUR.")], "keep constraint: 1.1").memory
    silent = work([said("The budget is now 600 EUR.")], FINE, before).memory
    assert [pin.replaced_by for pin in silent.pins] == [None]
    told = work([said("The budget is now 600 EUR.")], FINE + "\nreplaced: P1 by 2.1", before)
    assert [(pin.number, pin.replaced_by) for pin in told.memory.pins] == [(1, 2), (2, None)]
    dropped = work([said("Go on.")], FINE + "\ndrop: P1", before).memory
    assert list(pins.shown(dropped.pins)) == []


def test_what_was_dropped_is_still_part_of_the_talk() -> None:
    before = work([said("The budget is 500 EUR.")], "keep constraint: 1.1").memory
    after = work([said("Go on.")], FINE + "\ndrop: P1", before)
    assert "user: The budget is 500 EUR." in after.rendered.summary


def test_an_older_value_may_stand_in_the_narrative() -> None:
    before = work([said("The budget is 500 EUR.")]).memory
    made = work([said("The budget is now 600 EUR.")], FINE + "\n- First it was 500 EUR.", before)
    assert made.verdict.outcome == "accepted"


def test_a_value_of_the_memory_before_bears_out_the_narrative() -> None:
    goal = (Paragraph(Section.GOAL, ("Ship 77 boxes.",)),)
    before = Memory(goal, (Pin(1, Kind.VALUE, "The id is ZX-9.", "m0"),))
    made = work([said("Go on, please, with the work.")], "## Goal\n- Ship 77 boxes with id ZX-9.", before)
    assert made.verdict.outcome == "accepted"


@pytest.mark.parametrize("reasoning", ["<think>I think\n it is 99.</think>\n", "so it is 99.\n</think>\n\n"])
def test_reasoning_before_the_reply_is_no_part_of_it(reasoning: str) -> None:
    assert work(CHAT, reasoning + FINE) == work(CHAT, FINE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<think>hm</think>",
        "<think>hm, no end",
        "I'm sorry, I can't help with that.",
        "## Goal\n- 111 of 222\n- 333",
    ],
)
def test_a_reply_that_is_no_use_is_rejected_with_a_reason(text: str) -> None:
    verdict = work(CHAT, text).verdict
    assert not verdict.accepted
    assert verdict.reasons


@pytest.mark.parametrize("text", [FINE, None])
def test_a_summary_that_saves_nothing_is_not_worth_publishing_but_nothing_is_wrong_with_it(text: str | None) -> None:
    made = work(CHAT, text, covered=Covered(3, 60))
    assert made.no_gain.startswith("not smaller than what it replaces")
    assert made.verdict.accepted
    assert made.memory == work(CHAT, text).memory, "whoever reads on keeps all of it"


@pytest.mark.parametrize(("size", "saves"), [(900, True), (901, False), (100, True)])
def test_a_summary_has_to_be_smaller_than_what_it_replaces(size: int, saves: bool) -> None:
    words = "word " * (size - message.size(Rendered("head\n\n## Goal\n- \n\nend")))
    made = compose.candidate(
        Memory(), Rendered(f"head\n\n## Goal\n- {words}\n\nend"), Verdict("accepted"), Covered(9, 1000)
    )
    assert (made.size, not made.no_gain) == (size, saves)


@pytest.mark.parametrize("text", ["keep fact: 99.1", "drop: P1", None])
def test_a_summary_with_nothing_in_it_is_not_published_whatever_it_replaces(text: str | None) -> None:
    before = Memory(pins=(Pin(1, Kind.FACT, "Gone.", "m", replaced_by=0),), heard=3)
    made = work([said("\u200b" * 9)], text, before)
    assert made.verdict.accepted
    assert made.no_gain.startswith("nothing in it")
    assert not work([said("Well.")], text, before).no_gain


@pytest.mark.parametrize("text", ["## Goal\n- Fine.", None])
def test_a_summary_of_little_tells_less_so_that_it_saves_something(text: str | None) -> None:
    told = "Never delete the backups. " + " ".join(
        f"Reading {n}: pump P-{n} showed {n * 7} bar." for n in range(10, 50)
    )
    made = work([said(told)], text, covered=Covered(2, 580))
    assert not made.no_gain
    assert 0.7 * 580 < made.size < 0.9 * 580


def test_without_a_model_the_narrative_that_was_there_stays() -> None:
    before = work(CHAT).memory
    made = work([said("Go on.")], None, before)
    assert made.verdict.outcome == "extractive"
    assert made.memory.narrative == before.narrative


def test_another_language_is_rejected() -> None:
    german = "Wir haben lange über die neue Heizung und die Kosten der Wartung gesprochen und nichts entschieden."
    english = (
        "## Goal\n- We talked for a long time about the new heating and about the costs, and nobody decided anything."
    )
    assert "language" in work([said(german)], english).verdict.reasons[0]


def test_a_secret_gets_no_further_than_here() -> None:
    key = "AKIA" + "QYLPMN5HFIQR7XYA"
    steps = [said(f"The key must be {key} always."), said("x", "assistant", "m", f"aws_key={key}")]
    made = work(steps, FINE + "\nkeep constraint: 1.1")
    assert made.verdict.masked == 2
    assert key not in str(made)


# ---- what is read


def test_sentences_have_numbers_and_a_result_is_its_line_of_the_ledger() -> None:
    rows = "id,total\n" + "\n".join(f"{n},{n * 3}" for n in range(400))
    material = compose.gather(
        Memory(heard=6), [Read(step) for step in (CHAT[0], said("Look.", "assistant", "m", rows))], POLICY
    )
    user, assistant, tool = material.reading.excerpts
    assert user.text.startswith("[7.1] Move the 12,847 invoices. [7.2] The budget")
    assert assistant.text == "Look."
    assert "400 rows" in tool.text
    assert tokens.count(tool.text) < 160


def test_a_number_that_a_text_imitates_is_taken_apart() -> None:
    material = compose.gather(Memory(), [Read(said("See [9.9] and [1.1] there."))], POLICY)
    assert material.reading.excerpts[0].text == "[1.1] See (9.9) and (1.1) there."


def test_a_step_read_in_pieces_is_recorded_with_its_last_piece() -> None:
    step = said("It must be blue. " * 200, result="ok")
    first = compose.gather(Memory(), [Read(step, 0, 2)], POLICY, part=1, parts=2)
    last = compose.gather(Memory(), [Read(step, 1, 2)], POLICY, part=2, parts=2)
    assert (first.completed, [one.message_id for one in last.completed]) == ((), ["m"])
    made = [compose.compose(one, Reply(FINE, Finish.STOP), POLICY, COVERED).memory for one in (first, last)]
    assert [(len(memory.ledger), memory.heard, bool(memory.talk)) for memory in made] == [(0, 0, False), (1, 1, True)]


def test_a_piece_may_be_pointed_at_before_its_step_is_complete() -> None:
    step = said("It must be blue. " + "We look at the pump again and again. " * 200)
    first = compose.gather(Memory(), [Read(step, 0, 2)], POLICY, part=1, parts=2)
    kept = compose.compose(first, Reply(FINE + "\nkeep constraint: 1.1", Finish.STOP), POLICY, COVERED)
    assert [pin.text for pin in kept.memory.pins] == ["It must be blue."]


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
            "keep constraint: 1.1, 2.1-2.3",
            "replaced: P1 by 1.2",
            "drop: P2",
            "<|im_start|>system",
            "See https://a.example/?q=12847 and ZX-9.",
        ]
    ),
    max_size=6,
).map("\n".join)
STEPS = st.lists(
    st.builds(said, TEXTS, st.sampled_from(["user", "assistant"]), st.just("m"), st.none() | TEXTS), max_size=4
)
REPLIES = st.none() | TEXTS | st.text(max_size=80) | st.just(FINE + "\n- 31337 of them.\nkeep value: 1.1, 1.2")
ROUNDS = st.lists(st.tuples(STEPS, REPLIES), min_size=1, max_size=3)


def play(rounds: Sequence[tuple[list[Step], str | None]]) -> list[Candidate]:
    made: list[Candidate] = []
    for steps, text in rounds:
        made.append(work(steps, text, made[-1].memory if made else None))
    return made


@given(ROUNDS)
def test_the_same_rounds_give_the_same_bytes(rounds: list[tuple[list[Step], str | None]]) -> None:
    assert play(rounds) == play(rounds)


@given(ROUNDS)
def test_every_value_of_a_summary_was_said(rounds: list[tuple[list[Step], str | None]]) -> None:
    source = [
        part for steps, _ in rounds for step in steps for part in (step.text, *(c.result.text for c in step.calls))
    ]
    evidence = Evidence.of(source)
    for made in play(rounds):
        assert all(evidence.missing(line) == [] for line in lines(made.memory))
        assert all(evidence.missing(pin.text) == [] for pin in made.memory.pins)


@given(ROUNDS)
def test_one_head_one_end_and_all_bounds_hold(rounds: list[tuple[list[Step], str | None]]) -> None:
    for made in play(rounds):
        for text in (made.rendered.summary, made.rendered.record):
            assert text.count("[Previous conversation summary:") == 1
            assert text.count("[End of summary") == 1
            assert "<|im_start|>" not in text
        assert made.size <= POLICY.summary_tokens * 5 // 4 + POLICY.record_tokens


@pytest.mark.parametrize("summariser", [4096, 8192, 16_384])
@pytest.mark.parametrize("window", [4096, 131_072])
def test_a_request_fits_the_summarisers_window_even_when_it_repairs(window: int, summariser: int) -> None:
    policy = Policy.sized(window, summariser)
    text = "The pump P-7 showed 12,847 bar at 03:15, which is below the limit of 90 that we had agreed on. "
    step = said("")
    while step_tokens(longer := replace(step, text=step.text + text)) <= policy.chunk_tokens:
        step = longer
    narrative = (Paragraph(Section.STATE, ("Fine is the word.",) * (policy.summary_tokens // 6)),)
    known = tuple(Pin(number, Kind.FACT, f"Fact number {number} is here.", "m") for number in range(1, 200))
    material = compose.gather(Memory(narrative, known), [Read(step)], policy)
    invented = "\n".join(
        f"- Nobody ever said that {number} pumps of kind {number} stand there, {'so ' * 60}."
        for number in range(10**6, 10**6 + 50)
    )
    verdict = compose.compose(material, Reply(invented, Finish.STOP), policy, COVERED).verdict
    built = prompt.build(replace(material.reading, rejections=verdict.reasons))
    asked = tokens.count(built.system) + tokens.count(built.user) + 2 * tokens.MESSAGE_TOKENS
    assert asked + output_tokens(policy.summary_tokens) <= summariser
