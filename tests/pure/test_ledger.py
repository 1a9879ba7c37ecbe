"""The ledger: what each kind of result is said to be, references that stay, and a bound that holds."""

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service import tokens
from service.summarising import ledger
from service.summarising.ledger import Entry
from service.transcript import Call, Step
from service.transcript.items import ToolCall, ToolResult

ROWS = [{"diagnosis": "Malignant neoplasm", "count": 5}, {"diagnosis": "Benign", "count": 2}]
SAID = '| columns: diagnosis, count | first: {"diagnosis": "Malignant neoplasm", "count": 5}'


def call(result: str, name: str = "query", arguments: str = '{"q": 1}', *images: str) -> Call:
    return Call(ToolCall("c", name, arguments), ToolResult("c", result, images))


def step(*calls: Call, text: str = "", role: str = "assistant") -> Step:
    return Step("m", role, text, calls)


def described(value: Any) -> str:
    return ledger.describe(json.dumps(value))[0]


# ---- what a result is


@pytest.mark.parametrize(
    "value",
    [
        ROWS,
        {"rows": ROWS},
        {"anything": ROWS, "total": 2},
        {"a": {"b": {"c": ROWS}}},
        {"columns": ["diagnosis", "count"], "rows": [["Malignant neoplasm", 5], ["Benign", 2]]},
        {"columns": [{"name": "diagnosis"}, {"name": "count"}], "data": [["Malignant neoplasm", 5], ["Benign", 2]]},
        {"diagnosis": ["Malignant neoplasm", "Benign"], "count": [5, 2]},
        {"small": [{"x": 1}], "large": ROWS},
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_rows_are_counted_named_and_shown_under_any_key(value: Any) -> None:
    said = described(value)
    assert said.startswith(f"2 rows {SAID}")
    assert said.endswith('| last: {"diagnosis": "Benign", "count": 2}')


def test_csv_and_markdown_tables_are_rows() -> None:
    expected = '2 rows | columns: name, n | first: {"name": "a, b", "n": "1"} | last: {"name": "c", "n": "2"}'
    assert ledger.describe('name,n\n"a, b",1\nc,2')[0] == expected
    table = "The table:\n\n| name | n |\n|---|---:|\n| a, b | 1 |\n| c | 2 |\n"
    assert ledger.describe(table)[0] == expected
    assert ledger.describe("name\tn\na, b\t1\nc\t2")[0] == expected


def test_one_row_is_one_row() -> None:
    assert described([{"n": 1}]) == '1 row | columns: n | first: {"n": 1}'


def test_scalars_are_items() -> None:
    assert described([3, 4, 5]) == "3 items | first: 3"
    assert described([]) == "0 items"


@pytest.mark.parametrize("text", ["", "  \n "])
def test_nothing_is_an_empty_result(text: str) -> None:
    assert ledger.describe(text) == ("empty result", False)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"error": "boom: test"}, "error: boom: test"),
        ({"error": {"code": 5, "message": "no"}}, 'error: {"code": 5, "message": "no"}'),
        ({"errors": ["a", "b"], "data": None}, 'error: ["a", "b"]'),
    ],
)
def test_an_error_object_is_an_error(value: Any, said: str) -> None:
    assert ledger.describe(json.dumps(value)) == (said, True)


@pytest.mark.parametrize("value", [{"error": None, "n": 1}, {"errors": [], "n": 1}, {"error": False}])
def test_an_empty_error_is_none(value: Any) -> None:
    assert not ledger.describe(json.dumps(value))[1]


@pytest.mark.parametrize("text", ["Error: no such table", "Traceback (most recent call last)", "failed to connect"])
def test_a_text_that_begins_with_an_error_is_one(text: str) -> None:
    assert ledger.describe(text) == (text, True)


@pytest.mark.parametrize(
    "form", ["2026-11-21 10:00:0{},123 {}: disk", "21/11/2026 10:00:0{}, {}, disk", "[{}] {} disk"]
)
def test_log_lines_are_lines_and_their_errors_are_counted(form: str) -> None:
    lines = [form.format(n, "ERROR" if n % 3 == 0 else "INFO") for n in range(9)]
    text = "\n".join(lines) + "\n" + "x" * 240
    assert ledger.describe(text) == (
        f"10 lines ({len(text)} characters), 3 mention an error | first: {lines[0]}",
        False,
    )


def test_a_large_object_is_named_by_its_keys() -> None:
    said = described({"name": "x", "text": "y" * 900})
    assert said.startswith('object with name, text | {"name": "x", "text": "yyy')
    assert len(said) < 400


def test_images_are_counted() -> None:
    [entry] = ledger.extend([], [step(call("done", "chart", "{}", "/one", "/two"))], 500)
    assert entry.outcome == "done | 2 images"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"q": "a", "n": 4}', 'q="a", n=4'),
        ("{}", ""),
        ("", ""),
        ("[1, 2]", "[1, 2]"),
        ('{"n": 4, ', '{"n": 4, '.strip()),
        ("{'n': 4}", "{'n': 4}"),
        ("x" * 900, "x" * 99 + "…"),
    ],
)
def test_arguments_are_shown_json_or_not(arguments: str, shown: str) -> None:
    [entry] = ledger.extend([], [step(call("1", arguments=arguments))], 2000)
    assert entry.arguments == shown


def test_the_commentary_that_followed_is_kept_once() -> None:
    steps = [step(call("1")), step(text="So it is\none."), step(text="And more."), step(text="Hi", role="user")]
    [entry] = ledger.extend([], steps, 2000)
    assert entry.render() == "- T1 query(q=1) → 1 | then: So it is one."


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 300 + "1" + "}" * 300,
        '{"a":' * 600 + "1" + "}" * 600,
        "[" * 5000,
        "[" * 900 + "]" * 900,
        '"a,b\nc,d\ne,f',
        "a,b\n\n\n,",
        "|a|\n|-|\n|",
        "1" * 5000,
        "[" + "9" * 5000 + "]",
        "\x1c\x1d,",
    ],
    ids=lambda text: text[:12],
)
def test_odd_results_are_described(text: str) -> None:
    said, _ = ledger.describe(text)
    assert said
    assert "\n" not in said
    [entry] = ledger.extend([], [step(call(text, arguments=text))], 2000)
    assert "\n" not in entry.render()


@given(
    st.text(max_size=80)
    | st.text(alphabet='{}[]",:|-\n\t;ab1', max_size=40)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.floats(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    ).map(json.dumps)
)
@settings(max_examples=400)
def test_no_text_is_too_odd(text: str) -> None:
    said, _ = ledger.describe(text)
    assert said
    assert len(said.splitlines()) == 1
    assert len(said) < 3000


# ---- references and the bound


def some_calls(count: int, tools: int = 3, seed: int = 7) -> list[Step]:
    rng = random.Random(seed)
    results = [
        lambda: json.dumps(ROWS * rng.randint(1, 40)),
        lambda: json.dumps({"error": "no such table: t" + str(rng.randint(1, 9))}),
        lambda: "移行は金曜日までに完了します " * rng.randint(1, 20),
        lambda: "Done, " + str(rng.randint(1, 999)) + " files, 3 errors",
        lambda: json.dumps({f"key {n} " * 9: "v" * 90 for n in range(15)}),
    ]
    return [
        step(
            call(
                rng.choice(results)(), f"tool_{rng.randrange(tools)}", json.dumps({"q": "SELECT " * rng.randint(1, 30)})
            ),
            text="" if rng.random() < 0.7 else "I look at it. " * 9,
        )
        for _ in range(count)
    ]


def cost(entries: tuple[Entry, ...]) -> int:
    return tokens.count(ledger.render(entries))


@pytest.mark.parametrize("limit", [128, 204, 500, 2000])
@pytest.mark.parametrize("tools", [1, 5, 60])
def test_the_bound_holds_for_a_thousand_calls_at_once_and_in_rounds(limit: int, tools: int) -> None:
    steps = some_calls(1000, tools)
    at_once = ledger.extend([], steps, limit)
    assert 0 < cost(at_once) <= limit
    assert sum(entry.count for entry in at_once) == 1000
    rounds: tuple[Entry, ...] = ()
    for start in range(0, 1000, 100):
        rounds = ledger.extend(rounds, steps[start : start + 100], limit)
        assert cost(rounds) <= limit
        assert sum(entry.count for entry in rounds) == start + 100
    assert max(entry.last for entry in rounds) == 1000
    if limit == 2000:
        assert any(entry.count == 1 for entry in rounds), "the newest calls are still named one by one"


def test_the_oldest_calls_lose_their_samples_before_any_is_merged() -> None:
    rows = json.dumps([{"diagnosis": "malignant neoplasm", "count": number} for number in range(9)])
    steps = [step(call(rows, "trino_query", f'{{"q": {number}}}')) for number in range(12)]
    whole = ledger.extend((), steps, 100_000)
    bounded = ledger.extend((), steps, cost(whole) - 50)
    assert [entry.first for entry in bounded] == [entry.first for entry in whole]
    assert " | " in whole[0].outcome
    assert " | " not in bounded[0].outcome
    assert bounded[-1] == whole[-1]


def test_a_text_with_a_table_in_it_is_not_a_table() -> None:
    text = "# Notes\n\nSome words.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nMore words.\n\nAnd more.\n"
    assert "rows" not in ledger.describe(text)[0]


def test_one_call_never_breaks_the_bound() -> None:
    fat = step(call("移行" * 4000, "工" * 300, json.dumps({"鍵" * 200: "値" * 200})), text="")
    for limit in (128, 300, 2000):
        assert cost(ledger.extend([], [fat], limit)) <= limit
        assert cost(ledger.extend([], [fat] * 3, limit)) <= limit


def test_references_stay_when_the_ledger_grows_and_shrinks() -> None:
    """T12 is the same call in every checkpoint that still names it alone."""
    steps, seen = some_calls(120), dict[int, str]()
    entries: tuple[Entry, ...] = ()
    outcomes = [ledger.describe(s.calls[0].result.text)[0] for s in steps]
    for start in range(0, 120, 10):
        entries = ledger.extend(entries, steps[start : start + 10], 900)
        for entry in entries:
            assert entry.first <= entry.last <= start + 10
            if entry.count == 1:
                assert entry.first == entry.last
                assert outcomes[entry.first - 1].startswith(entry.outcome.partition(" | ")[0][:60])
                assert seen.setdefault(entry.first, entry.tool) == entry.tool
    assert len(seen) > 60


def test_numbering_goes_on_after_everything_was_merged() -> None:
    """Merged lines overlap, and the last of them need not hold the newest call."""
    merged = (Entry(1, 9, "a", "", "5 results", count=5), Entry(2, 8, "b", "", "4 results", count=4))
    assert ledger.extend(merged, [step(call("x"))], 2000)[-1].first == 10


def test_entries_that_fit_are_left_alone() -> None:
    entries = ledger.extend([], some_calls(4), 5000)
    assert ledger.extend(entries, some_calls(2, seed=1), 5000)[: len(entries) - 1] == entries[:-1]
    assert ledger.extend(entries, [], 5000) == entries


def test_failures_of_one_tool_in_a_row_merge() -> None:
    failing = [step(call(json.dumps({"error": f"e{n}"}))) for n in range(3)]
    [entry] = ledger.extend([], failing, 2000)
    assert entry.render() == "- T1–T3 query × 3 → 3 failed calls, last error: e2"
    first = ledger.extend([], failing[:2], 2000)
    assert ledger.extend(first, failing[2:], 2000) == (entry,)
    good = step(call("fine"))
    assert [e.count for e in ledger.extend([], [*failing, good, *failing], 2000)] == [3, 1, 3]


def test_merged_lines_count_results_and_errors() -> None:
    steps = [step(call("Done, 3 errors", "t")), step(call('{"error": "x"}', "t")), step(call("fine " * 30, "t"))] * 20
    entries = ledger.extend([], steps, 128)
    text = ledger.render(entries)
    assert not re.search(r"-\d+ results", text)
    counts = [(int(a), int(b)) for a, b in re.findall(r"(\d+) results, (\d+) errors", text)]
    assert counts
    assert all(errors < results for results, errors in counts)


def test_the_ledger_is_deterministic() -> None:
    assert ledger.extend([], some_calls(300), 500) == ledger.extend([], some_calls(300), 500)
