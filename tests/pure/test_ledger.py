"""The ledger: one line for each tool call, its figures as they stand; calls without room share a line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising import ledger
from service.summarising.ledger import Entry
from service.text import tokens
from service.transcript import Call, Step
from service.transcript.items import ToolCall, ToolResult


def call(result: str, name: str = "look_up", **arguments: Any) -> Call:
    return Call(ToolCall("c", name, json.dumps(arguments)), ToolResult("c", result))


def step(*calls: Call, text: str = "", role: str = "assistant") -> Step:
    return Step("m", role, text, calls)


def outcome(result: object) -> str:
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return " | ".join(ledger.describe_call(1, call(text)).parts)


ROWS = [{"id": 1, "name": "Ann", "note": ""}, {"id": 2, "name": "Bob Stone", "note": ""}]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("[]", "empty result"),
        ("0 issues.", '"0 issues."'),
        (ROWS, '2 items | [{id: 1, name: Ann, note: ""}, {id: 2, name: "Bob Stone", note: ""}]'),
        ("id,total\n1,17.50\n2,99.00", '"id,total 1,17.50 2,99.00"'),
        ({"error": "no such table"}, 'error: "no such table"'),
        (
            "Traceback (most recent call last):\n  File x\nKeyError: 'a'",
            "\"Traceback (most recent call last): File x KeyError: 'a'\"",
        ),
        ({"content": [{"type": "text", "text": "[1, 2, 3]"}]}, "3 items | [1, 2, 3]"),
        (
            {"cards": [{"amount": 157}], "address": {"city": "Houston"}, "status": "paid"},
            "cards: [{amount: 157}], address: {city: Houston}, status: paid",
        ),
        ('{"a": 12847.50, "b": 1e5, "c": 0.10}', "a: 12847.50, b: 1e5, c: 0.10"),
        ('"[{\\"a\\": 1}, {\\"a\\": 2}]"', "2 items | [{a: 1}, {a: 2}]"),
        ('{"note": "a\tb"}', 'note: "a b"'),
    ],
)
def test_a_result_is_told_by_its_size_and_what_it_begins_with(result: object, expected: str) -> None:
    assert outcome(result) == expected


@pytest.mark.parametrize(
    ("reported", "failed"),
    [
        ({"error": "no such table"}, True),
        ({"error": {"code": 7}}, True),
        ({"errors": 0, "rows": 3}, False),
        ({"error": "none"}, False),
        ({"status": "failed", "message": "quota exceeded"}, True),
        ({"success": False}, True),
        ({"ok": False}, True),
        ({"isError": True, "content": []}, True),
        ({"exit_code": 2, "stderr": "boom"}, True),
        ({"exit_code": 0}, False),
    ],
)
def test_an_object_that_reports_a_failure_counts_as_an_error(reported: object, failed: bool) -> None:
    assert bool(ledger.describe_call(1, call(json.dumps(reported))).failed) is failed


def test_a_log_tells_its_lines_and_what_they_mention() -> None:
    log = "\n".join(["INFO all is well and running as it should be on this host"] * 9 + ["ERROR disk 7 failed"] * 2)
    assert outcome(log).startswith('11 lines (561 characters) | 2 report a failure: "ERROR disk 7 failed"')


def test_a_text_that_is_cut_has_its_quotation_marks_in_pairs() -> None:
    assert outcome("word " * 200).count('"') == 4


CALLS = (
    call(json.dumps({"seat": "14C", "code": "ZX81"}), "book"),
    call("calm", "weather", day="monday"),
    call("windy", "weather", day="tuesday"),
    call(json.dumps({"error": "no such card"}), "pay", code="ZX81"),
    call(json.dumps({"error": "the card has expired"}), "pay", code="ZX81"),
)


def test_a_result_that_a_later_call_used_has_a_line_of_its_own_and_the_others_share_one() -> None:
    shown = ledger.choose(ledger.extend((), [step(*CALLS)]), 90, used=True).lines
    assert shown == ("- T1 book() → seat: 14C, code: ZX81", "- T2–T5 weather × 2, pay × 2 (2 failed)")


def test_each_call_has_a_line_of_its_own_where_there_is_room() -> None:
    shown = ledger.choose(ledger.extend((), [step(*CALLS)]), 100).lines
    assert len(shown) == len(CALLS)
    assert shown[-1] == '- T5 pay(code: ZX81) → error: "the card has expired"'


def test_with_little_room_the_calls_are_counted() -> None:
    calls = [call("word " * 40, "weather", day=day) for day in ("monday", "tuesday")]
    shown = ledger.choose(ledger.extend((), [step(*calls, call('{"error": "no card"}', "pay"))]), 25).lines
    assert shown == ('- T3 pay() → error: "no card"', "- T1–T2 weather × 2")


@pytest.mark.parametrize(
    "result",
    [
        '"  "',
        json.dumps(json.dumps(json.dumps('"  "'))),
        '[{"type": "text", "text": ""}, {"type": "text", "text": ""}]',
        "x\n" * 400 + "  ",
        "[" * 100_000,
    ],
    ids=["blanks", "blanks in texts", "empty parts", "blanks at the end", "nested too deeply"],
)
def test_any_result_has_an_outline(result: str) -> None:
    assert ledger.write_outline(call(result)).startswith("look_up() →")


def test_a_call_without_a_name_is_one_of_a_tool() -> None:
    assert ledger.write_call(call("1", " ")) == "tool()"


def test_calls_that_nobody_could_read_keep_the_numbers_right() -> None:
    grown = ledger.extend(ledger.add_unread_calls((), 3), [step(call("1"))])
    assert [(entry.first, entry.last) for entry in grown] == [(1, 3), (4, 4)]


def test_very_many_calls_are_stored_as_few() -> None:
    grown: tuple[Entry, ...] = ()
    for number in range(500):
        grown = ledger.extend(grown, [step(call(f"result {number}", f"tool{number % 7}"))])
    assert len(grown) <= 160
    assert grown[-1].last == 500
    *alone, others = ledger.choose(grown, 10_000).lines
    assert (len(alone), others.count("×")) == (sum(entry.count == 1 for entry in grown), 7)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=80)), max_size=12), st.integers(0, 400))
def test_lines_fit_any_room(calls: list[tuple[str, str]], limit: int) -> None:
    entries = ledger.extend((), [step(call(result, name)) for name, result in calls])
    shown = ledger.choose(entries, limit).lines
    assert sum(tokens.count(line) + 1 for line in shown) <= limit


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    )
)
def test_any_text_and_any_json_is_told_and_bounded(value: object) -> None:
    assert 0 < len(outcome(value)) < 3000
