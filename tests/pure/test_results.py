"""What a tool's result is said to be: rows under any key, tables, logs, errors, data."""

import html
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.summarising.ledger import results
from tests.pure.shown import described, said

ROWS = [{"diagnosis": "Malignant neoplasm", "count": 5}, {"diagnosis": "Benign", "count": 2}]
COLUMNS = "2 rows | columns: diagnosis, count | ranges: count 2..5 (sum 7)"
SAMPLES = '| first: {"diagnosis": "Malignant neoplasm", "count": 5} | last: {"diagnosis": "Benign", "count": 2}'


# ---- rows


@pytest.mark.parametrize(
    ("value", "beside"),
    [
        (ROWS, ""),
        ({"rows": ROWS}, ""),
        ({"anything": ROWS, "total": 2481, "page": {"size": 2}}, '{"total": 2481, "page.size": 2}'),
        ({"a": {"b": {"c": ROWS}}}, ""),
        ({"columns": ["diagnosis", "count"], "rows": [["Malignant neoplasm", 5], ["Benign", 2]]}, ""),
        (
            {"columns": [{"name": "diagnosis"}, {"name": "count"}], "data": [["Malignant neoplasm", 5], ["Benign", 2]]},
            "",
        ),
        ({"columns": ["diagnosis", "count"], "index": [0, 1], "data": [["Malignant neoplasm", 5], ["Benign", 2]]}, ""),
        ({"diagnosis": ["Malignant neoplasm", "Benign"], "count": [5, 2]}, ""),
        ({"diagnosis": {"0": "Malignant neoplasm", "1": "Benign"}, "count": {"0": 5, "1": 2}}, ""),
        ([["diagnosis", "count"], ["Malignant neoplasm", 5], ["Benign", 2]], ""),
        ({"small": [{"x": 1}], "large": ROWS}, "small: 1 row"),
        ({"content": [{"type": "text", "text": json.dumps(ROWS)}], "isError": False}, ""),
        ({"result": json.dumps(ROWS)}, ""),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_rows_are_counted_named_and_shown_under_any_key(value: Any, beside: str) -> None:
    shown = described(value)
    assert shown.startswith(COLUMNS)
    assert shown.endswith(SAMPLES)
    if beside:
        assert f" | beside: {beside} | " in shown


@pytest.mark.parametrize(
    "text",
    [
        html.escape(json.dumps(ROWS)),
        html.escape(html.escape(json.dumps({"rows": ROWS}))),
        json.dumps(json.dumps(ROWS)),
        json.dumps(json.dumps(json.dumps(ROWS))),
        html.escape(json.dumps(json.dumps(ROWS))),
        json.dumps(json.dumps(ROWS))[1:-1],
        "\ufeff" + json.dumps(ROWS),
        "```json\n" + json.dumps(ROWS, indent=1) + "\n```",
        "Here are the rows:\n" + json.dumps(ROWS),
        "\n".join(map(json.dumps, ROWS)),
        str(ROWS),
    ],
    ids=lambda text: text[:30],
)
def test_rows_are_found_however_they_are_wrapped(text: str) -> None:
    assert said(text) == f"{COLUMNS} {SAMPLES}"


def test_objects_under_keys_and_numbers_under_keys_are_rows() -> None:
    keyed = {name: {"n": n} for n, name in enumerate("abc")}
    assert described(keyed).startswith(
        '3 rows | columns: key, n | ranges: n 0..2 (sum 3) | first: {"key": "a", "n": 0}'
    )
    assert described({f"k{n}": n for n in range(12)}).startswith("12 rows | columns: key, value | ranges: value 0..11")


def test_nested_columns_have_ranges_too() -> None:
    value = {"hits": {"total": 9, "hits": [{"_id": "a", "_source": {"n": 3}}, {"_id": "b", "_source": {"n": 14}}]}}
    shown = described(value)
    assert "2 rows | columns: _id, _source | ranges: _source.n 3..14 (sum 17)" in shown
    assert 'beside: {"hits.total": 9}' in shown


@pytest.mark.parametrize("start", ["", '{"total": 9, "rows": '])
def test_json_that_breaks_off_has_the_rows_before(start: str) -> None:
    text = start + json.dumps(ROWS)[:-1] + ', {"diagnosis": "Ben… [truncated]'
    assert said(text) == f"{COLUMNS} {SAMPLES}".replace("2 rows", "2 rows before it breaks off", 1)


def test_what_pythons_print_shows_is_read() -> None:
    text = "[(1, 'it''s', Decimal('12.50'), None, datetime.date(2026, 1, 2)), (2, \"b\", Decimal('0.70'), True, 'x')]"
    shown = said(text.replace("''", "\\'"))
    assert shown.startswith("2 rows | columns: column 1, column 2, column 3, column 4, column 5")
    assert "column 3 0.70..12.50 (sum 13.20)" in shown
    assert '"column 2": "it\'s", "column 3": 12.50, "column 4": null, "column 5": "datetime.date(2026, 1, 2)"' in shown


TABLE = (
    "2 rows | columns: name, n | ranges: n 1..2 (sum 3)"
    ' | first: {"name": "a, b", "n": "1"} | last: {"name": "c", "n": "2"}'
)


@pytest.mark.parametrize(
    "text",
    [
        'name,n\n"a, b",1\nc,2',
        'name,n\r\n"a, b",1\r\nc,2\r\n',
        "name;n\na, b;1\nc;2",
        "name\tn\na, b\t1\nc\t2",
        "name|n\na, b|1\nc|2",
        "| name | n |\n|---|---:|\n| a, b | 1 |\n| c | 2 |",
        "The table:\n\n| name | n |\n|---|---:|\n| a, b | 1 |\n| c | 2 |\n",
        "name | n\n--- | ---\na, b | 1\nc | 2",
        " name | n \n------+---\n a, b | 1\n c    | 2\n",
        "+------+---+\n| name | n |\n+------+---+\n| a, b | 1 |\n| c    | 2 |\n+------+---+",
    ],
)
def test_csv_and_tables_of_text_are_rows(text: str) -> None:
    assert said(text) == TABLE


def test_a_bar_inside_a_cell_does_not_end_it() -> None:
    assert '"first \\| x"' not in said("| a | b |\n|---|---|\n| x \\| y | 1 |\n")
    assert said("| a | b |\n|---|---|\n| x \\| y | 1 |\n").endswith('first: {"a": "x | y", "b": "1"}')


def test_csv_with_a_line_break_in_a_cell_and_a_name_that_comes_twice() -> None:
    shown = said('name,n,n\n"a\nb",1,7\nc,2,8')
    assert shown.startswith("2 rows | columns: name, n, n | ranges: n 1..2 (sum 3), n 7..8 (sum 15)")


def test_csv_without_a_head_has_no_row_less() -> None:
    assert said("1,7\n2,8\n3,9").startswith("3 rows | columns: column 1, column 2 | ranges: column 1 1..3")


def test_one_line_below_a_head_is_a_row_and_two_sentences_are_not() -> None:
    assert said("region,amount\nnorth,12847.50").startswith("1 row | columns: region, amount | first:")
    assert "row" not in said("First, we look.\nThen, we leap.")
    assert "row" not in said("Well, this is a text.\nIt has commas, too.\nAnd more, as you see.")


def test_a_table_within_a_text_is_named() -> None:
    text = (
        "# Notes\n\nSome words.\n\n| a | b |\n|---|---|\n| 1 | 20 |\n| 3 | 40 |\n\n"
        + "More words. " * 20
        + "\n\nEnd.\n"
    )
    shown = said(text)
    assert shown.startswith(
        f"8 lines ({len(text.strip())} characters) | a table of 2 rows | columns: a, b | ranges: a 1..3"
    )


def test_one_row_items_and_nothing() -> None:
    assert described([{"n": 1}]) == '1 row | columns: n | first: {"n": 1}'
    assert described([3, 4, 5]) == "3 items | ranges: 3..5 (sum 12) | first: 3 | last: 5"
    assert described(["a"]) == '1 item | first: "a"'
    assert described([]) == "0 items"
    assert described({"columns": ["a", "b"], "rows": []}) == "0 rows | columns: a, b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "empty result"),
        ("  \n ", "empty result"),
        ("null", "empty result (null)"),
        ("{}", "empty result ({})"),
        ('""', 'empty result ("")'),
    ],
)
def test_nothing_is_an_empty_result(text: str, shown: str) -> None:
    assert results.read(text) == results.Result(shown)


def test_a_small_object_is_shown_whole_and_a_large_one_by_its_keys() -> None:
    assert described({"a": 1, "b": {"c": [1, 2]}}) == '{"a": 1, "b": {"c": [1, 2]}}'
    large = {"name": "x", "text": "words and " * 90, "n": 12, "list": list(range(3))}
    found = results.read(json.dumps(large))
    assert (found.said, found.whole) == ("object of 4 fields", True)


def test_an_object_with_rows_in_it_is_no_table() -> None:
    items = [{"sku": f"S-{n}", "price": n, "note": "as agreed " * 9} for n in range(4)]
    order = {"order": "A-1204", "state": "open", "city": "Bremen", "total": 57, "paid": True, "items": items}
    assert results.read(json.dumps(order)).whole
    page = {"page": 1, "size": 40, "total": 990, "took": 3, "rows": items * 10}
    assert described(page).startswith("40 rows | columns: sku, price, note")


def test_groups_of_objects_are_rows() -> None:
    assert described([[{"n": 1}, {"n": 2}], [{"n": 4}]]).startswith("3 rows | columns: n | ranges: n 1..4")


def test_a_row_without_a_cell_shows_none_for_it() -> None:
    rows = [{"n": 1, "note": "as agreed " * 9}, {"n": 2, "extra": "x" * 70}]
    for text in (json.dumps(rows), str(rows), json.dumps({"rows": rows})):
        assert said(text).startswith("2 rows | columns: n, note, extra")
        assert "object at 0x" not in said(text)
        assert said(text).endswith('last: {"n": 2, "extra": "[70 characters]"}')


# ---- errors


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"error": "boom: test"}, 'error: "boom: test"'),
        ({"error": {"code": 5, "message": "no"}}, 'error: {"code": 5, "message": "no"}'),
        ({"errors": ["a", "b"], "data": None}, 'error: ["a", "b"]'),
        ({"errors": ["a", "b", "c"]}, 'error: ["a", "b", "c"] (3 errors)'),
        ({"error": True, "message": "disk full"}, 'error: "disk full"'),
        ({"status": "error", "message": "disk full"}, 'error: "disk full"'),
        ({"success": False, "reason": "no such table"}, 'error: "no such table"'),
        ({"detail": "Not found"}, 'error: "Not found"'),
        ({"stdout": "", "stderr": "ls: x\nls: cannot open\n", "exit_code": 2}, 'error: exit code 2: "ls: cannot open"'),
    ],
)
def test_an_object_that_tells_of_an_error_is_one(value: Any, shown: str) -> None:
    found = results.read(json.dumps(value))
    assert (found.said, found.details, found.failed) == (shown, (), True)


@pytest.mark.parametrize(
    "value",
    [{"error": None, "n": 1}, {"errors": [], "n": 1}, {"error": False}, {"error": 0.05, "n": 1}, {"exit_code": 0}],
)
def test_an_empty_error_and_a_number_are_none(value: Any) -> None:
    assert not results.read(json.dumps(value)).failed


def test_an_error_beside_rows_is_told_with_them() -> None:
    found = results.read(json.dumps({"rows": ROWS, "errors": ["page 3 is missing"]}))
    assert not found.failed
    assert found.said == "2 rows"
    assert 'error: ["page 3 is missing"]' in map(str, found.details)


@pytest.mark.parametrize("text", ["Error: no such table", "Traceback (most recent call last)", "failed to connect"])
def test_a_text_that_begins_with_an_error_is_one(text: str) -> None:
    found = results.read(text)
    assert (found.said, found.failed) == (f'"{text}"', True)


def test_a_traceback_is_its_last_line() -> None:
    text = "Traceback (most recent call last):\n" + '  File "a.py", line 3, in f\n' * 20 + "ValueError: 7 is odd\n"
    assert results.read(text).failed
    assert said(text) == 'error: "ValueError: 7 is odd" | traceback of 22 lines'


@pytest.mark.parametrize(
    "form", ["2026-11-21 10:00:0{},123 {}: disk", "21/11/2026 10:00:0{}, {}, disk", "[{}] {} disk"]
)
def test_log_lines_are_counted_and_their_errors_told(form: str) -> None:
    lines = [form.format(n, "ERROR" if n % 3 == 0 else "INFO") for n in range(9)]
    text = "\n".join(lines) + "\n" + "x" * 240
    assert said(text) == (
        f'10 lines ({len(text)} characters), 3 mention an error | errors: "{lines[0]}" × 3'
        f' | first: "{lines[0]}" | last: "[240 characters]"'
    )


def test_kinds_of_errors_are_counted_and_the_absence_of_errors_is_none() -> None:
    lines = [
        "INFO 0 errors so far",
        "ERROR disk 7 full",
        "INFO errors=0",
        "ERROR disk 8 full",
        "ERROR no route to db-1",
    ] * 4
    assert ', 12 mention an error | errors: "ERROR disk 7 full" × 8; "ERROR no route to db-1" × 4 | first:' in said(
        "\n".join(lines)
    )


def test_numbers_of_log_lines_have_ranges() -> None:
    lines = "\n".join(f"line {n:05} status=OK latency_ms={n % 9} bytes={n * 10} path=/v1/item/{n}" for n in range(300))
    assert "ranges: latency_ms 0..8, bytes 0..2990 (sum 448500)" in said(lines)


# ---- data that is no text


def test_binary_and_inline_data_are_named_not_shown() -> None:
    blob = "iVBORw0KGgoAAAANSUhEUg" + "Ab1/" * 80
    assert said(blob) == f"base64 data (PNG image, {len(blob)} characters)"
    assert said(f"data:image/png;base64,{blob}") == f"inline file (image/png, {len(blob) + 22} characters)"
    assert said("%PDF-1.7\n\ufffd\ufffd\x00") == "binary data (PDF, 12 characters)"
    assert said("\ufffd\x01\x02" * 50) == "binary data (unknown, 150 characters)"
    shown = described([{"n": 1, "image": f"data:image/png;base64,{blob}"}, {"n": 2, "image": blob}])
    assert '"image": "[image/png]"' in shown
    assert f'"image": "[{len(blob)} characters]"' in shown
    assert shown.endswith("| 1 inline file")


def test_colours_and_characters_that_hide_words_are_not_shown() -> None:
    assert said("\x1b[31mred\x1b[0m \u202eabc\u202c zero\u200bwidth\U000e0041") == '"red cba zerowidth"'


# ---- anything


@given(
    st.text(max_size=80)
    | st.text(alphabet="{}[]\"',:|-\n\t;ab1()&#`=\\", max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.floats(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    ).map(json.dumps)
    | st.recursive(
        st.none() | st.booleans() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner)
        ),
    ).map(repr)
)
def test_no_text_is_too_odd(text: str) -> None:
    shown = said(text)
    assert shown
    assert len(shown.splitlines()) == 1
    assert len(shown) < 3000
    assert shown.encode()
