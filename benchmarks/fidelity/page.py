"""docs/fidelity.md, whole, from what a run found. No figure on it is written by hand.

In: the object that a run writes. Out: the page and its plot.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.fidelity.phrasebook import TYPES
from benchmarks.fidelity.scoring import SORTS
from benchmarks.fidelity.scripts import GOOD, SCRIPTS
from benchmarks.fidelity.systems import BUILT_IN, ROUNDS, systems

matplotlib.use("Agg")  # files only, no window; before pyplot is imported

from matplotlib import pyplot

Json = dict[str, Any]
_SHOWN = 12  # lost items that are quoted
_FLOORS = tuple(system.name for system in systems() if system.floor)
_MAIN = (BUILT_IN, GOOD.name, *_FLOORS)

_HEAD = """\
# Fidelity

What summaries do **not** keep of a conversation, what they do, and what else stands in them. Written by

```sh
./scripts/fidelity --json fidelity.json --docs docs      # --quick: a look
```

{seeds} generated chats of 80 messages in five languages, covered in {rounds} rounds. The budget is the size of the
summary, in per cent of what it covers in the last round. In production a chat of two windows has 5 to 20 % for its
summary, one of ten windows 1 to 3 %: the left columns are the ones that count. What code of ours generates says
little about real talk (`./scripts/talk`); a mark of 100 % here would only say that the generator is too easy.
"""
_METHOD = """\
## How it is measured

- **Precis** is the service's own code from the stored message to the summary message. *{built_in}* has no LLM; the
  others are scripts behind the seam where an LLM stands, which know what was planted, but see only their prompt:
  {scripts}.
- The floors: {floors}.
- Planted are rules, constraints, decisions, facts, preferences, goals, values and ids as users say them: alone, two in
  a sentence, between small talk, behind pasted code, as a question; short answers that need their question, entries
  that need the head of their list; values that change later, every second one without a word that says so (*replaced*).
  Of tools: values that an answer or a later call took up (*used*), and samples, counts and ranges that nobody asked for
  again (*tool*), from tables, nested objects, files and shells. Answers have some 300 words full of numbers that
  nobody planted. Users paste code and logs, in which sentences of order stand.
- An item is **kept** when all that makes it up stands on one line; a tool's value character by character.
  **Precision** is the share of what was planted in what is known to stand there of what was said. **Stale** is a line
  with a value that was replaced, without its successor. **Wrong** are numbers, ids and addresses that no covered text
  has and no exact count or sum explains. **Read** is what an LLM read in all rounds for each token covered. **Orders**
  are chats whose summary has the address that an instruction in a tool's result wanted there.
"""


def write(found: Json, folder: Path) -> None:
    """The page and its plot, into the folder of documents."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    _draw(found, images / "fidelity.png")
    (folder / "fidelity.md").write_text(text(found), encoding="utf-8")


def text(found: Json) -> str:
    """The page."""
    scripts = "; ".join(f"*{script.name}* {script.meaning}" for script in SCRIPTS)
    floors = "; ".join(f"*{system.name}*: {system.meaning}" for system in systems() if system.floor)
    parts = [
        _HEAD.format(seeds=found["seeds"], rounds=ROUNDS),
        _not_kept(found),
        _by_type(found),
        _standing(found),
        _faulty(found),
        _real(found["real_llm"]) if "real_llm" in found else "",
        _METHOD.format(built_in=BUILT_IN, scripts=scripts, floors=floors),
    ]
    return "\n".join(part.strip() + "\n" for part in parts if part)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _percent(value: float | None, *, less: bool = False) -> str:
    """A share, or what is missing of it."""
    if value is None:
        return "–"
    return f"{(1 - value if less else value) * 100:.0f} %"


def _of(found: Json, system: str, budget: float) -> Json | None:
    return next((one for one in found["figures"] if one["system"] == system and one["budget"] == budget), None)


def _not_kept(found: Json) -> str:
    """What users said and the summary has not, at each budget; and some of it, word for word."""
    budgets = found["budgets"]
    rows = [
        (name, *(_percent(one["said"], less=True) if (one := _of(found, name, share)) else "–" for share in budgets))
        for name in _MAIN
    ]
    heads = ("**not** kept of what was said", *(f"{share:.0%}" for share in budgets))
    largest = max(budgets)
    lost = [one for one in found["lost"] if largest in one["budgets"]]
    lines = [f"- {one['system']}, {one['type']} ({one['language']}): “{one['text'].strip()}”" for one in lost[:_SHOWN]]
    more = [f"- … and {len(lost) - _SHOWN} more, in the JSON"] if len(lost) > _SHOWN else []
    quoted = [f"Not kept even at {largest:.0%}:", "", *lines, *more] if lost else []
    listed = "\n".join(quoted)
    return f"## What is not kept\n\n{_table(heads, rows)}\n\n![Kept by budget](images/fidelity.png)\n\n{listed}"


def _by_type(found: Json) -> str:
    """By kind, for the built-in way and a good LLM, at two budgets."""
    budgets = found["budgets"]
    shown = [share for share in (0.03, 0.10) if share in budgets] or budgets[:1]
    tables = []
    for share in shown:
        some = [(name, one) for name in _MAIN if (one := _of(found, name, share))]
        rows = [(type_, *(_percent(one["types"][type_], less=True) for _, one in some)) for type_ in TYPES]
        codes = dict.fromkeys(code for _, one in some for code in one["languages"])
        rows += [
            (f"language {code}", *(_percent(one["languages"].get(code), less=True) for _, one in some))
            for code in codes
        ]
        rows.append(("the worst chat", *(_percent(one["worst_chat"], less=True) for _, one in some)))
        tables.append(f"**Not** kept at {share:.0%}:\n\n" + _table(("", *(name for name, _ in some)), rows))
    return "## By kind\n\n" + "\n\n".join(tables)


def _standing(found: Json) -> str:
    """What else takes the room."""
    rows = [
        (
            f"{name}, {share:.0%}",
            _percent(one["precision"]),
            *(_percent(one["standing"][sort]) for sort in SORTS),
            _percent(one["size"]),
            f"{one['stale']} of {one['superseded']}",
            f"{one['wrong']} of {one['values']}",
        )
        for share in found["budgets"]
        for name in _MAIN
        if (one := _of(found, name, share))
    ]
    heads = ("", "precision", *SORTS, "size of what is covered", "stale", "wrong")
    told = "Shares of the summary's tokens by what they are; the rest is marks, what tools gave, and what an LLM wrote."
    return f"## What stands there\n\n{told}\n\n{_table(heads, rows)}"


def _faulty(found: Json) -> str:
    """Every LLM at the budgets where all of them ran."""
    rows = [
        (
            f"{one['system']}, {one['budget']:.0%}",
            _percent(one["said"], less=True),
            _percent(one["worst_chat"], less=True),
            _percent(one["types"]["used"], less=True),
            _percent(one["precision"]),
            f"{one['stale']} of {one['superseded']}",
            f"{one['wrong']} of {one['values']}",
            one["orders"],
            f"{one['read']:.2f}",
            ", ".join(f"{count} {word}" for word, count in one["outcomes"].items()) or "–",
        )
        for script in SCRIPTS
        for one in found["figures"]
        if one["system"] == script.name
    ]
    heads = (
        "LLM",
        "**not** kept",
        "worst chat",
        "used values not kept",
        "precision",
        "stale",
        "wrong",
        "orders",
        "read",
        "drafts",
    )
    return f"## With faulty LLMs\n\n{_table(heads, rows)}"


def _real(real: Json) -> str:
    rows = list(real["figures"].items())
    return f"""## With a real small LLM

{real["about"]}

{_table(("figure", "value"), rows)}

Its summary, as it is:

````text
{real["summary"].strip()}
````"""


def _draw(found: Json, path: Path) -> None:
    shown, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    budgets = found["budgets"]
    for name in _MAIN:
        curve = [100 * (one["said"] or 0) if (one := _of(found, name, share)) else float("nan") for share in budgets]
        floor = name in _FLOORS
        label = name if floor else f"Precis, {name}{'' if name == BUILT_IN else ' LLM'}"
        axes.plot(budgets, curve, marker="o", label=label, linestyle="--" if floor else "-")
    axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{share:.0%}" for share in budgets], minor=False)
    axes.minorticks_off()
    axes.set(xlabel="size of the summary, of what it covers", ylabel="kept of what was said, %", ylim=(0, 102))
    axes.legend(fontsize="small")
    shown.savefig(path, dpi=100)
    pyplot.close(shown)
