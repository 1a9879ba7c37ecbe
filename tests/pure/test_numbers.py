"""Numbers of results: each as it stands in the source, ranges and sums exact."""

import csv
import io
import json
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.summarising.ledger.ranges import span
from service.summarising.ledger.wording import Number
from tests.pure.shown import said


@pytest.mark.parametrize(
    ("cells", "name", "shown"),
    [
        (["12847.50", "3.5"], "amount", "3.5..12847.50 (sum 12851.00)"),
        (["0.1", "0.2", "0.3"], "n", "0.1..0.3 (sum 0.6)"),
        (["90071992547409931234", "1"], "n", "1..90071992547409931234 (sum 90071992547409931235)"),
        (["-5", "+7", ""], "delta", "-5..+7 (sum 2)"),
        (["1e3", "20"], "n", "20..1e3"),
        (["3", "4"], "invoice_id", "3..4"),
        (["3", "4"], "unitPrice", "3..4"),
        (["8376844", "8245495", "8397626"], "bill", "8245495..8397626"),
        (["1,234.50", "999"], "n", "999..1,234.50 (sum 2233.50)"),
        (["1.234,50", "999"], "n", "999..1.234,50 (sum 2233.50)"),
        (["1.234", "999"], "n", ""),
        (["1,234", "2,345"], "n", "1,234..2,345"),
        (["$1,234.50", "$7"], "n", "$7..$1,234.50"),
        (["2 h", "24 h"], "n", "2 h..24 h"),
        (["2 h", "24 d"], "n", ""),
        (["2026-01-09", "2025-12-31"], "day", "2025-12-31..2026-01-09"),
        (["2026-01-09", "2025-12"], "day", ""),
        (["007", "12"], "n", ""),
        (["CBM-60", "CBM-218"], "n", ""),
        (["n/a", "-", "4", "5"], "n", "4..5 (sum 9)"),
        (["4"], "n", ""),
        ([True, "4"], "n", ""),
        (["1" * 41, "2"], "n", ""),
        ([Number("1.234"), Number("999")], "n", "1.234..999 (sum 1000.234)"),
    ],
    ids=str,
)
def test_ranges_and_sums(cells: list[Any], name: str, shown: str) -> None:
    assert span(cells, name) == shown


FIGURES = st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,12})?", fullmatch=True)


@given(st.lists(FIGURES, min_size=2, max_size=20))
@example(["1.1", "2.2", "0.10"])
def test_a_range_is_text_of_the_source_and_a_sum_is_exact(figures: list[str]) -> None:
    for cells in ([Number(one) for one in figures], figures):
        found = re.fullmatch(r"(\S+)\.\.(-?\d\S*?)(?: \(sum (\S+)\))?", span(cells, "amount"))
        if not found:
            assert cells is figures, "JSON numbers always have a range"
            continue
        least, most, total = found.groups()
        assert {least, most} <= set(figures)
        assert Fraction(least) == min(map(Fraction, figures))
        assert Fraction(most) == max(map(Fraction, figures))
        if total:
            assert Fraction(total) == sum(map(Fraction, figures))
            assert "E" not in total


OF_OURS = re.compile(r"^\d+ rows?|\(sum [^)]*\)|\[(?:number of )?\d+ (?:characters|items)\]|\{\d+ keys\}|column \d+")
DIGITS = re.compile(r"\d[\d.]*(?:[eE][+-]?\d+)?")
CELLS = st.one_of(
    FIGURES.map(Number), st.text(st.characters(codec="ascii", categories=("L", "N", "P", "Z")), max_size=90)
)


def written(rows: list[list[Any]], names: list[str]) -> tuple[str, str]:
    """The rows as JSON, each number as it stands, and as CSV."""
    objects = (
        ", ".join(
            f'"{name}": {c if isinstance(c, Number) else json.dumps(c)}' for name, c in zip(names, row, strict=True)
        )
        for row in rows
    )
    text = io.StringIO()
    csv.writer(text).writerows([names, *rows])
    return "[" + ", ".join(f"{{{one}}}" for one in objects) + "]", text.getvalue()


@given(
    st.integers(2, 6).flatmap(
        lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=3, max_size=6)
    )
)
def test_every_number_that_is_shown_stands_in_the_source(rows: list[list[Any]]) -> None:
    names = [f"{letter}_name" for letter in "abcdef"[: len(rows[0])]]
    for source in written(rows, names):
        shown = OF_OURS.sub("", said(source).replace('\\"', '"'))
        figures = set(DIGITS.findall(source))
        for one in DIGITS.findall(shown.replace("..", " ")):
            assert one in figures or one.rstrip(".") in {figure.rstrip(".") for figure in figures}, (one, source)
