"""The benchmarks' own machinery, and the cheapest of them: figures in, table and one JSON object out."""

import random

import pytest

from benchmarks import report
from benchmarks.conversation import grown, turns
from benchmarks.report import Figure, Report
from benchmarks.rounds import best, interleaved
from service.transcript import digest


def a_report() -> Report:
    figures = [
        Figure("small", "below its bound", 1.25, 1.5),
        Figure("large", "above it", 9.5, 2),
        Figure("count", "", 7),
    ]
    return report.timed("Some benchmark", figures, {"first": [3.0, 2.0], "second": [4.0]}, "a fact")


def test_the_table_says_which_bounds_are_missed(capsys: pytest.CaptureFixture[str]) -> None:
    report.show(a_report())
    shown = capsys.readouterr().out.splitlines()
    verdicts = {name: next(line for line in shown if f" {name} " in line) for name in ("small", "large", "count")}
    assert "≤ 1.5 │ met" in verdicts["small"]
    assert "≤ 2 │ MISSED" in verdicts["large"]
    assert "met" not in verdicts["count"].lower()
    assert "a fact" in "\n".join(shown)


async def test_every_round_calls_every_variant_and_the_fastest_round_counts() -> None:
    calls: list[str] = []

    async def one() -> None:
        calls.append("one")

    async def other() -> None:
        calls.append("other")

    medians = await interleaved({"one": one, "other": other}, rounds=3, calls=5)
    assert {name: len(values) for name, values in medians.items()} == {"one": 3, "other": 3}
    assert calls.count("one") == calls.count("other") == 4 * 5  # one round warms up
    assert best({"one": [3.0, 1.0, 2.0]}, "one") == 1.0


def test_made_paths_carry_the_digests_that_the_service_checks() -> None:
    above = ""
    path = list(grown(random.Random(1), sizes=turns(3, 20, 40)))
    assert [one.role for one in path] == ["user", "assistant"] * 3
    for one in path:
        above = digest(above, one.id, one.fingerprint)
        assert one.digest == above
