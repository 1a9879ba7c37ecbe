"""The plots of docs/fidelity.md: survival by round, survival by type, the kit's compactors.

In: the object that a run writes. Out: PNG files.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")  # files only, no window; before pyplot is imported

from matplotlib import pyplot
from matplotlib.axes import Axes

from benchmarks.fidelity.phrasebook import TYPES

Json = dict[str, Any]
_FLOORS = (
    ("rewriting", "perfect", "tab:olive"),
    ("rewriting", "drops", "tab:orange"),
    ("rewriting", "alters", "tab:red"),
    ("masking", "none", "tab:purple"),
    ("truncation", "none", "tab:gray"),
)


def draw(found: Json, folder: Path) -> None:
    """All plots, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    _by_round(found, folder / "fidelity-rounds.png")
    _by_type(found, folder / "fidelity-types.png")
    _kit(found, folder / "fidelity-kit.png")


def middle(budgets: Sequence[float]) -> float:
    """The budget that is shown when there is room for one."""
    return sorted(budgets)[len(budgets) // 2]


def chosen(figures: Iterable[Json], **wanted: object) -> list[Json]:
    """The figures that have these values."""
    return [one for one in figures if all(one[key] == value for key, value in wanted.items())]


def llms(found: Json, system: str) -> list[str]:
    """The LLMs of a system, in the order in which they ran."""
    return list(dict.fromkeys(one["llm"] for one in found["rounds"] if one["system"] == system))


def _curve(found: Json, system: str, llm: str, budget: float) -> list[float]:
    """What is kept of all that the user said, by round."""
    figures = [one for one in chosen(found["survival"], system=system, llm=llm, budget=budget) if one["type"] != "tool"]
    curve = []
    for number in range(1, found["rounds_each"] + 1):
        now = chosen(figures, round=number)
        curve.append(sum(one["kept"] for one in now) / max(sum(one["all"] for one in now), 1))
    return curve


def _by_round(found: Json, path: Path) -> None:
    budgets = found["budgets"]
    shown, panels = pyplot.subplots(
        1, len(budgets), figsize=(4.6 * len(budgets), 4.2), sharey=True, layout="constrained", squeeze=False
    )
    for panel, budget in zip(panels[0], budgets, strict=True):
        ours = np.array([_curve(found, "precis", llm, budget) for llm in llms(found, "precis")])
        numbers = range(1, found["rounds_each"] + 1)
        panel.fill_between(numbers, ours.min(0), ours.max(0), color="tab:green", alpha=0.3)
        panel.plot(numbers, ours.min(0), color="tab:green", marker="o", label="Precis, its worst LLM")
        for system, llm, colour in _FLOORS:
            label = system if llm == "none" else f"{system}, LLM {llm}"
            panel.plot(numbers, _curve(found, system, llm, budget), color=colour, marker=".", label=label)
        panel.set(title=f"budget {budget:.0%}", xlabel="round", ylim=(-0.03, 1.05), xticks=list(numbers))
    panels[0][0].set_ylabel("kept of what the user said")
    panels[0][-1].legend(fontsize="x-small", loc="lower left")
    _save(shown, path)


def _by_type(found: Json, path: Path) -> None:
    budget, types = middle(found["budgets"]), (*TYPES, "tool")
    rows = [(one["system"], one["llm"]) for one in chosen(found["rounds"], round=found["rounds_each"], budget=budget)]
    kept = {(one["system"], one["llm"], one["type"]): one["survival"] for one in _ends(found, budget)}
    table = np.array([[kept.get((*row, type_), np.nan) for type_ in types] for row in rows])
    shown, axes = pyplot.subplots(figsize=(10, 0.36 * len(rows) + 1.5), layout="constrained")
    axes.imshow(table, cmap="RdYlGn", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(types)), types)
    axes.set_yticks(range(len(rows)), [system if llm == "none" else f"{system}: {llm}" for system, llm in rows])
    axes.set_title(f"kept in the last round, budget {budget:.0%}, per cent")
    for y, x in np.ndindex(table.shape):
        colour = "black" if 0.15 < table[y, x] < 0.85 else "white"
        axes.text(x, y, f"{table[y, x] * 100:.0f}", ha="center", va="center", fontsize="small", color=colour)
    _save(shown, path)


def _ends(found: Json, budget: float) -> list[Json]:
    return chosen(found["survival"], round=found["rounds_each"], budget=budget)


def _kit(found: Json, path: Path) -> None:
    names = list(dict.fromkeys(one["compactor"] for one in sorted(found["kit"], key=lambda one: str(one["compactor"]))))
    budgets = sorted({one["budget_fraction"] for one in found["kit"]})
    shown, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
    for place, budget in enumerate(budgets):
        entries = {one["compactor"]: one for one in chosen(found["kit"], budget_fraction=budget)}
        survival = [entries[name]["randomized"]["overall_final_survival"] for name in names]
        resolved = [entries[name]["semantic"]["resolved_rate"] for name in names]
        _bars(left, survival, place, len(budgets), f"budget {budget:.0%}")
        _bars(right, resolved, place, len(budgets), f"budget {budget:.0%}")
    left.set(title="canaries left after five rounds", xlim=(0, 1), yticks=range(len(names)), yticklabels=names)
    right.set(title="paraphrased updates resolved", xlim=(0, 1))
    right.legend(fontsize="small")
    _save(shown, path)


def _bars(axes: Axes, values: Sequence[float], place: int, of: int, label: str) -> None:
    axes.barh(np.arange(len(values)) + (place - of / 2) * 0.25 + 0.12, values, height=0.25, label=label)


def _save(shown: Any, path: Path) -> None:  # noqa: ANN401 - a figure
    shown.savefig(path, dpi=90)
    pyplot.close(shown)
