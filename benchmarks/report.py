"""What a benchmark found: a table for the terminal, and one flat JSON object of all benchmarks.

In: `Report`s. Out: text, files. Bounds are those of the project's goals; a missed one is shown, and is no error.
"""

import argparse
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.rounds import Medians, best
from service.cli import shell

_METHOD = "median of the fastest round; variants interleaved in random order, cores kept awake"

console = Console()


@dataclass(frozen=True, slots=True)
class Figure:
    """One result. `bound` is the largest value that is wanted, None when there is none, and `least` the smallest."""

    name: str
    meaning: str
    value: float
    bound: float | None = None
    least: float = 0

    @property
    def verdict(self) -> str:
        """`met`, `MISSED`, or a dash when there is no bound."""
        if self.bound is None:
            return "–"
        return "met" if self.least <= self.value <= self.bound else "MISSED"


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark's results.

    Attributes:
        title: what was measured.
        figures: the results that have a name of their own.
        facts: circumstances worth a line: sizes, times of preparation, other values.
    """

    title: str
    figures: Sequence[Figure]
    facts: Sequence[str]


def timed(title: str, figures: Sequence[Figure], medians: Medians, *facts: str) -> Report:
    """The report of a benchmark whose figures come from `rounds`."""
    times = [f"  {variant}: {best(medians, variant):,.0f} µs" for variant in medians]
    return Report(title, figures, [*facts, f"p50 ({_METHOD}):", *times])


Measure = Callable[[bool], Awaitable[Report]]


def command(*measures: Measure) -> None:
    """The command line of one benchmark, or of all."""
    parser = argparse.ArgumentParser(description="Measures, and prints a table.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the ratios are rougher")
    parser.add_argument("--json", type=Path, help="also write the values, as one object {name: value}, to this file")
    given = parser.parse_args()
    reports = []
    for measure in measures:
        report = shell.run(_awaited(measure(given.quick)))  # on the loop that the service has
        reports.append(report)
        show(report)
    if len(reports) > 1:
        console.print(_table("All benchmarks", [figure for report in reports for figure in report.figures]))
    if given.json:
        write(reports, given.json)


async def _awaited(measuring: Awaitable[Report]) -> Report:
    return await measuring


def show(report: Report) -> None:
    """Prints the table and the facts."""
    console.print(_table(report.title, report.figures))
    for fact in report.facts:
        console.print(f"  {fact}", highlight=False, soft_wrap=True)


def write(reports: Iterable[Report], path: Path) -> None:
    """All values by name."""
    values = {figure.name: round(figure.value, 4) for report in reports for figure in report.figures}
    path.write_text(json.dumps(values, indent=2) + "\n")


def _table(title: str, figures: Sequence[Figure]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading, justify in (("name", "left"), ("what", "left"), ("value", "right"), ("bound", "right"), ("", "left")):
        table.add_column(heading, justify="right" if justify == "right" else "left", overflow="fold")
    colours = {"met": "[green]met[/]", "MISSED": "[bold red]MISSED[/]"}
    for figure in figures:
        bound = "" if figure.bound is None else f"≤ {figure.bound:g}"
        bound = f"{figure.least:g} to {figure.bound:g}" if figure.least else bound
        table.add_row(
            figure.name, figure.meaning, f"{figure.value:.3g}", bound, colours.get(figure.verdict, figure.verdict)
        )
    return table
