"""`python -m benchmarks.fidelity [--quick] [--json PATH]`: runs, prints, and writes the page when it is told to."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.fidelity import kit, page
from benchmarks.fidelity.marks import Json, marks
from benchmarks.fidelity.phrasebook import TYPES
from benchmarks.fidelity.plots import middle
from benchmarks.fidelity.running import Record, faults, figures, rounds, run
from benchmarks.fidelity.systems import ROUNDS

SEEDS, BUDGETS, KIT_SEEDS = (1, 2, 3, 4, 5), (0.10, 0.20, 0.30), (1, 2, 3, 4)

REAL_LLM = Path(__file__).parents[2] / "docs" / "real-llm.json"  # by scripts/real-llm

console = Console(width=170) if not sys.stdout.isatty() else Console()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="What summaries keep of conversations, and what they get wrong.")
    parser.add_argument("--quick", action="store_true", help="one chat, one budget (20 %%)")
    parser.add_argument("--json", type=Path, help="write every figure, and the marks, to this file")
    parser.add_argument("--docs", type=Path, help="write fidelity.md and its plots into this folder")
    parser.add_argument("--seeds", type=_range, help="e.g. 1-5; those from 100 on lack the held-out phrasings")
    given = parser.parse_args()
    started = time.monotonic()
    seeds, budgets = ((1,), (0.20,)) if given.quick else (SEEDS, BUDGETS)
    found = everything(given.seeds or seeds, budgets)
    show(found)
    console.print(f"{time.monotonic() - started:.0f} s", highlight=False)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if given.docs:
        page.write(found, given.docs)


def everything(seeds: tuple[int, ...], budgets: tuple[float, ...]) -> Json:
    """One run as one object, as it is written."""
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        of_the_kit = processes.submit(kit.benchmark, KIT_SEEDS[: len(seeds)], budgets)
        records = run(processes, seeds, budgets)
        found = summed_up(records, seeds, budgets) | {"kit": of_the_kit.result()}
    return found | {"real_llm": json.loads(REAL_LLM.read_text())} if REAL_LLM.exists() else found


def summed_up(records: Sequence[Record], seeds: tuple[int, ...], budgets: tuple[float, ...]) -> Json:
    """What the records say."""
    by_type, by_round = figures(records), rounds(records)
    return {
        "seeds": seeds,
        "budgets": budgets,
        "rounds_each": ROUNDS,
        "marks": {mark.name: mark.as_json() for mark in marks(by_type, by_round)},
        "survival": by_type,
        "rounds": by_round,
        "faults": faults(records),
    }


def show(found: Json) -> None:
    """Prints what Precis loses, survival in the last round, and the marks."""
    for one in found["faults"]:
        where = f"{', '.join(one['llms'])} at {', '.join(f'{share:.0%}' for share in one['budgets'])}"
        text = one["text"] if one["type"] != "tool" else f"{one['text']} {one['keys']}"
        console.print(
            f"{one['fault']} {one['type']} (seed {one['seed']}): {text!r}: {where}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    console.print(_survival(found))
    console.print(_marks(found["marks"]))


def _survival(found: Json) -> Table:
    share = middle(found["budgets"])
    table = Table(title=f"Kept in the last round, budget {share:.0%}", title_justify="left")
    for head in ("system", "LLM", *TYPES, "tool", "values right", "found"):
        table.add_column(head)
    for end in found["rounds"]:
        if end["round"] == found["rounds_each"] and end["budget"] == share:
            kept = {
                one["type"]: one["survival"]
                for one in found["survival"]
                if all(one[key] == end[key] for key in ("system", "llm", "budget", "round"))
            }
            values = (end["value_precision"], end["value_recall"])
            cells = (f"{value * 100:.0f}" for value in (*(kept.get(type_, 0) for type_ in (*TYPES, "tool")), *values))
            table.add_row(end["system"], end["llm"], *cells)
    return table


def _marks(made: Json) -> Table:
    table = Table(title="Marks", title_justify="left")
    for head in ("mark", "what", "value", "bound", "", "floors"):
        table.add_column(head, overflow="fold")
    for name, mark in made.items():
        verdict = "[green]met[/]" if mark["met"] else "[bold red]MISSED[/]"
        floors = ", ".join(f"{other} {value:g}" for other, value in mark["floors"].items())
        table.add_row(name, mark["meaning"], f"{mark['value']:g}", mark["bound"], verdict, floors)
    return table


def _range(text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    return tuple(range(int(first), int(last or first) + 1))


if __name__ == "__main__":
    main()
