"""What a benchmark found: a table for the terminal, a plot as PNG, and one flat JSON object of all benchmarks.

In: `Report`s. Out: text, files. Bounds are those of the project's goals; a missed one is shown, and is no error.
"""

import argparse
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import matplotlib
from rich.console import Console
from rich.table import Table

from benchmarks.rounds import Medians, best

matplotlib.use("Agg")  # files only, no window; before pyplot is imported

from matplotlib import pyplot

from service.cli import shell

OUT = Path(__file__).parent / "out"
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
        name: of the plot's file.
        title: what was measured.
        figures: the results that have a name of their own.
        curves: the measured values behind them, by variant.
        axes: what the curves' x and y mean.
        scale: of the curves' y: `linear` or `log`.
        facts: circumstances worth a line: sizes, times of preparation, other values.
    """

    name: str
    title: str
    figures: Sequence[Figure]
    curves: Mapping[str, Sequence[float]]
    axes: tuple[str, str]
    scale: Literal["linear", "log"] = "linear"
    facts: Sequence[str] = ()


def timed(name: str, title: str, figures: Sequence[Figure], medians: Medians, *facts: str) -> Report:
    """The report of a benchmark whose figures come from `rounds`."""
    times = [f"  {variant}: {best(medians, variant):,.0f} µs" for variant in medians]
    curves = {variant: sorted(values) for variant, values in medians.items()}
    axes = "round, fastest first", "median of the round, µs"
    return Report(name, title, figures, curves, axes, "log", [*facts, f"p50 ({_METHOD}):", *times])


Measure = Callable[[bool], Awaitable[Report]]


def command(*measures: Measure) -> None:
    """The command line of one benchmark, or of all."""
    parser = argparse.ArgumentParser(description="Measures, prints a table, saves a plot.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the ratios are rougher")
    parser.add_argument("--json", type=Path, help="also write the values, as one object {name: value}, to this file")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the plots (default: benchmarks/out)")
    given = parser.parse_args()
    reports = []
    for measure in measures:
        report = shell.run(_awaited(measure(given.quick)))  # on the loop that the service has
        reports.append(report)
        show(report)
        console.print(f"plot: {plot(report, given.out)}", soft_wrap=True, highlight=False)
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


def plot(report: Report, folder: Path) -> Path:
    """Left: each value as a share of its bound. Right: what was measured. Returns the file."""
    shown, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5), layout="constrained")
    shown.suptitle(report.title)
    bounded = [figure for figure in report.figures if figure.bound]
    bars = left.barh(
        [figure.name for figure in bounded],
        [figure.value / figure.bound for figure in bounded if figure.bound],
        color=["tab:green" if figure.verdict == "met" else "tab:red" for figure in bounded],
    )
    left.bar_label(bars, [f"{figure.value:.3g} (≤ {figure.bound:g})" for figure in bounded], padding=3)
    left.axvline(1, color="black", linewidth=1)
    left.set_xlabel("value ÷ bound")
    left.margins(x=0.25)
    left.invert_yaxis()
    for name, values in report.curves.items():
        right.plot(range(1, len(values) + 1), values, label=name, linewidth=1)
    right.set(xlabel=report.axes[0], ylabel=report.axes[1], yscale=report.scale)
    right.legend(fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.name}.png"
    shown.savefig(path, dpi=100)
    pyplot.close(shown)
    return path


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
