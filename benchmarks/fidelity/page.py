"""docs/fidelity.md, whole, from what a run found. No figure on it is written by hand.

In: the object that a run writes. Out: the page and its plots.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.fidelity.phrasebook import TYPES
from benchmarks.fidelity.plots import chosen, draw, middle
from benchmarks.fidelity.scripts import SCRIPTS

Json = dict[str, Any]
_SHOWN = 12  # faults of Precis that are quoted

_HEAD = """\
# Fidelity

What a summary keeps of a conversation, and what it gets wrong. Everything on this page is written by

```sh
./scripts/fidelity --json fidelity.json --docs docs      # some minutes; --quick: one chat, one budget
```

{seeds} generated chats (data analysis, software, a journey, a contract, and an office's move in German), each of 80
messages and 20,000 to 30,000 tokens, in all four formats in which Open WebUI stores tool calls. {count} types of items
are planted in them, as a user would say them: alone, in the middle of a long message, behind something pasted, with and
without words such as "must". They are covered in five rounds. A budget is the size of the summary, in per cent of what
it covers in the last round.
"""
_METHOD = """\
## How it is measured

- **Precis** is the service's own code from the stored message to the summary message (parse, steps, plan, gather,
  prompt, compose), with scripted LLMs behind the seam where a real one stands. They know the truth of a chat, but see
  only what they are given. As a worker does, it asks once more when a reply is rejected, and then lets the built-in
  summariser write.
- **rewriting** is the same scripted LLM asked for one free summary of its last summary and what is new, which is what
  most compactors do. **truncation** keeps the newest text that fits, **masking** does so after leaving out tool
  outputs. A rewriting LLM that is perfect loses nothing here, because it knows what will be asked for; *drops* and
  *alters* show what becomes of small faults when they are made again in every round.
- An item is **kept** when all that makes it up stands on one line of the summary, numbers in whatever spelling; what
  tools gave must stand there character by character.
  {types}
- A **leak** is a line with a superseded value and without its successor. A **contradiction** is a line about an item
  with another value of the same shape. **Drift** is the share of kept items whose line changed since the round before;
  lines about tools get shorter as they grow old. **Values right**: of the numbers, ids and addresses of the summary,
  those that the covered messages have, or that are exact counts and sums of them.
- A third of the phrasings is held out: chats on which rules were tried while they were written (seeds from 100 on) do
  not have them. {held_out}

The first whole run on these chats missed four marks: three rules and a decision were lost, and three old values stood
on. The rules were then mended in general terms (a question tag asks nothing, a sentence may name the value that it
replaces, words of an address are no subject, ...), so the held-out phrasings are not unseen any more.

What it does not show: how a model uses what is kept, whether prose reads well, and what people say in ways that nobody
here thought of. Rules that find items without an LLM know more of English and German than of other languages.
"""
_ROUNDS = """\
## Values, leaks, drift, cost

In the last round, budget {share:.0%}. *Size* is the summary's, of what it covers. *Read* is what the LLM read in all
rounds for each token covered. *Orders*: chats in which a summary repeats what an instruction planted in a tool result
asked for. *Replies*: what became of them in all rounds.
"""
_KIT = """\
## In the compaction-conformance-kit

The [kit](https://pypi.org/project/compaction-conformance-kit/) (MIT) plants labelled canaries ("SAFETY RULE: …") in
sessions of some 1,600 tokens without tool calls, and compacts a compactor's own output again for five rounds. Precis
takes part with its built-in summariser, because there is no LLM; the kit's checklists know its labels. Its budgets are
characters of all that is left, so the 250 characters that say what a summary is count too. Precis never summarises a
summary, so nothing changes after its first round.
"""


def write(found: Json, folder: Path) -> None:
    """The page and its plots, into the folder of documents."""
    draw(found, folder / "images")
    parts = [
        _HEAD.format(seeds=len(found["seeds"]), count=len(TYPES) + 1),
        _marks(found),
        _faults(found["faults"]),
        _survival(found),
        _rounds(found),
        _kit(found["kit"]),
        _real(found["real_llm"]) if "real_llm" in found else "",
        _METHOD.format(types=_types(found), held_out=_held_out(found)),
    ]
    (folder / "fidelity.md").write_text("\n".join(part.strip() + "\n" for part in parts if part))


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _percent(value: float) -> str:
    return f"{value * 100:.1f}".removesuffix(".0") + " %"


def _marks(found: Json) -> str:
    floors = list(next(iter(found["marks"].values()))["floors"])
    rows = [
        (
            mark["meaning"],
            f"{mark['value']:g}",
            mark["bound"].replace(">=", "≥").replace("<=", "≤"),
            "met" if mark["met"] else "**missed**",
            *(f"{mark['floors'][floor]:g}" for floor in floors),
        )
        for mark in found["marks"].values()
    ]
    text = "Of Precis with every LLM behind it, the faulty ones too; the floors have the same of their own."
    return f"## Marks\n\n{text}\n\n{_table(('mark', 'value', 'bound', '', *floors), rows)}"


def _faults(faults: Sequence[Json]) -> str:
    if not faults:
        return "Nothing of what is planted was lost, leaked or contradicted by Precis, at any budget."
    said = [one for one in faults if one["type"] != "tool"]
    lines = [
        f"- {one['fault']}, {one['type']}: “{one['text']}” ({', '.join(one['llms'])};"
        f" {', '.join(f'{share:.0%}' for share in one['budgets'])}{'; held out' if one['held_out'] else ''})"
        for one in said[:_SHOWN]
    ]
    more = [f"- … and {len(said) - _SHOWN} more, in the JSON"] if len(said) > _SHOWN else []
    tools = len(faults) - len(said)
    note = [f"- {tools} samples or aggregates of tool results, at one budget or another"] if tools else []
    return "\n".join(["What Precis lost, or showed wrong, with which LLM, at which budgets:", "", *lines, *more, *note])


def _survival(found: Json) -> str:
    share, types = middle(found["budgets"]), (*TYPES, "tool")
    kept = {
        (one["system"], one["llm"], one["type"]): one["survival"]
        for one in chosen(found["survival"], round=found["rounds_each"], budget=share)
    }
    rows = [
        (system, llm, *(_percent(kept[system, llm, type_]) if (system, llm, type_) in kept else "–" for type_ in types))
        for system, llm in dict.fromkeys((system, llm) for system, llm, _ in kept)
    ]
    return f"""## What is kept

After five rounds, budget {share:.0%}:

{_table(("system", "LLM", *types), rows)}

The LLMs: {"; ".join(f"*{script.name}* {script.meaning}" for script in SCRIPTS)}; *extractive* is the built-in
summariser, without an LLM.

![Survival by round](images/fidelity-rounds.png)

![Survival by type](images/fidelity-types.png)"""


def _rounds(found: Json) -> str:
    share = middle(found["budgets"])
    rows = [
        (
            one["system"],
            one["llm"],
            _percent(one["value_precision"]),
            _percent(one["value_recall"]),
            f"{one['leaks']} of {one['superseded']}",
            _percent(one["contradictions"]),
            _percent(one["drift"]),
            _percent(one["tool_drift"]),
            _percent(one["compression"]),
            f"{_read(found, one, share):.2f}",
            one["orders_repeated"],
            _verdicts(found, one, share),
        )
        for one in chosen(found["rounds"], round=found["rounds_each"], budget=share)
    ]
    heads = (
        "system",
        "LLM",
        "values right",
        "planted values found",
        "leaks",
        "contradictions",
        "drift",
        "drift, tools",
        "size",
        "read",
        "orders",
        "replies",
    )
    return f"{_ROUNDS.format(share=share)}\n{_table(heads, rows)}"


def _same(found: Json, end: Json, share: float) -> list[Json]:
    return chosen(found["rounds"], system=end["system"], llm=end["llm"], budget=share)


def _read(found: Json, end: Json, share: float) -> float:
    return float(sum(one["llm_tokens_read"] for one in _same(found, end, share)) / end["covered_tokens"])


def _verdicts(found: Json, end: Json, share: float) -> str:
    counts: dict[str, int] = {}
    for one in _same(found, end, share):
        for word, count in one["verdicts"].items():
            counts[word] = counts.get(word, 0) + count
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda pair: -pair[1])) or "–"


def _kit(entries: Sequence[Json]) -> str:
    rows = [
        (
            _percent(one["budget_fraction"]),
            one["compactor"],
            _percent(one["randomized"]["overall_final_survival"]),
            f"{one['randomized']['supersession']['stale']} of {one['randomized']['supersession']['n']}",
            _percent(one["semantic"]["resolved_rate"]),
            f"{one['semantic']['conflicts']['stale']} of {one['semantic']['conflicts']['n']}",
            _percent(one["semantic"]["distinct_pair_rate"]),
            _percent(one["mean_final_output_ratio"]),
        )
        for one in entries
    ]
    heads = (
        "budget",
        "compactor",
        "canaries left",
        "old values",
        "updates resolved",
        "old values, paraphrased",
        "pairs held apart",
        "size",
    )
    return f"{_KIT}\n{_table(heads, rows)}\n\n![The kit's compactors](images/fidelity-kit.png)"


def _real(real: Json) -> str:
    rows = list(real["figures"].items())
    return f"""## With a real small LLM

{real["about"]}

{_table(("figure", "value"), rows)}

Its summary, as it is:

````text
{real["summary"].strip()}
````"""


def _types(found: Json) -> str:
    planted = chosen(
        found["survival"], system="precis", llm="perfect", budget=found["budgets"][0], round=found["rounds_each"]
    )
    return (
        "Planted and current in the last round: "
        + ", ".join(f"{one['all']} of type {one['type']}" for one in planted)
        + "."
    )


def _held_out(found: Json) -> str:
    ends = chosen(found["rounds"], system="precis", round=found["rounds_each"], budget=middle(found["budgets"]))
    held_out, tried = (min(one[key] for one in ends) for key in ("held_out", "tried"))
    return (
        f"With the worst LLM {_percent(held_out)} of what is said in held-out phrasings is kept in the last round, and"
        f" {_percent(tried)} of the rest."
    )
