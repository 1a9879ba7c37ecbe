"""`python -m benchmarks.fidelity [--quick] [--json PATH] [--docs DIR]`: runs, prints, writes the page when told to."""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path as File
from typing import Any

from rich.console import Console

from benchmarks.fidelity import page
from benchmarks.fidelity.generator import build
from benchmarks.fidelity.items import Item
from benchmarks.fidelity.phrasebook import DOMAINS, TYPES
from benchmarks.fidelity.scoring import SORTS, Source, score
from benchmarks.fidelity.scripts import GOOD
from benchmarks.fidelity.systems import BUILT_IN, covered, systems
from benchmarks.played import Path
from service.text import tokens

Json = dict[str, Any]
SEEDS = tuple(range(1, len(DOMAINS) + 1))
BUDGETS = (0.01, 0.02, 0.03, 0.05, 0.10, 0.20)
_TRIED = (0.03, 0.20)  # with every LLM; with the others at each budget
REAL_LLM = File(__file__).parents[2] / "docs" / "real-llm.json"  # by scripts/real-llm

console = Console(width=170) if not sys.stdout.isatty() else Console()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="What summaries keep of conversations, and what else stands there.")
    parser.add_argument("--quick", action="store_true", help="two chats, two budgets, built-in and good LLM")
    parser.add_argument("--json", type=File, help="write every figure to this file")
    parser.add_argument("--docs", type=File, help="write fidelity.md and its plot into this folder")
    given = parser.parse_args()
    started = time.monotonic()
    found = everything((1, 6), (0.03, 0.10), quick=True) if given.quick else everything(SEEDS, BUDGETS)
    console.print(page.text(found), highlight=False, markup=False, soft_wrap=True)
    console.print(f"{time.monotonic() - started:.0f} s", highlight=False)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if given.docs:
        page.write(found, given.docs)


def everything(seeds: Sequence[int], budgets: Sequence[float], *, quick: bool = False) -> Json:
    """One run as one object, as it is written."""
    with ProcessPoolExecutor(1 if quick else os.cpu_count()) as processes:
        ran = processes.map(chat, seeds, [budgets] * len(seeds), [quick] * len(seeds))
        records = [record for some in ran for record in some]
    found = {
        "seeds": len(seeds),
        "budgets": list(budgets),
        "figures": figures(records),
        "lost": _lost(records),
    }
    return found | ({"real_llm": json.loads(REAL_LLM.read_text(encoding="utf-8"))} if REAL_LLM.exists() else {})


def chat(seed: int, budgets: Sequence[float], quick: bool) -> list[Json]:
    """Every system on one chat."""
    made = build(seed)
    path = Path.of(made.messages)
    ends = covered(path)
    source = Source.of(made, {node.id for node in path.nodes[:ends]})
    records = []
    for share in budgets:
        for system in systems():
            always = system.floor or system.name in (BUILT_IN, GOOD.name)
            if not always and (quick or share not in _TRIED):
                continue
            got = system.run(made, path, int(path.tokens(ends) * share))
            marks = score(source, got.summary)
            records.append(
                {
                    "system": system.name,
                    "budget": share,
                    "seed": seed,
                    "language": made.language,
                    "covered": path.tokens(ends),
                    "size": tokens.count(got.summary),
                    "survival": marks.survival,
                    "standing": marks.standing,
                    "stale": len(marks.stale),
                    "superseded": marks.superseded,
                    "wrong": len(marks.wrong),
                    "values": marks.values,
                    "order": marks.order,
                    "read": got.read,
                    "outcomes": Counter(got.outcomes),
                    "lost": [_named(item, made.language) for item in marks.lost if item.type not in ("tool", "used")],
                }
            )
    return records


def _named(item: Item, language: str) -> tuple[str, str, str]:
    return item.type, language, item.text


def figures(records: Iterable[Json]) -> list[Json]:
    """Sums over the seeds, by system and budget."""
    groups: dict[tuple[str, float], list[Json]] = {}
    for record in records:
        groups.setdefault((record["system"], record["budget"]), []).append(record)
    return [{"system": system, "budget": share} | _sums(group) for (system, share), group in groups.items()]


def _sums(group: Sequence[Json]) -> Json:
    def total(key: str) -> int:
        return sum(int(one[key]) for one in group)

    def kept(types: Sequence[str], among: Sequence[Json] = group) -> float | None:
        pairs = [one["survival"][type_] for one in among for type_ in types if type_ in one["survival"]]
        every = sum(pair[1] for pair in pairs)
        return sum(pair[0] for pair in pairs) / every if every else None

    said = [type_ for type_ in TYPES if type_ not in ("tool", "used")]
    standing = {sort: sum(one["standing"][sort] for one in group) for sort in SORTS}
    known = sum(standing.values())
    outcomes: Counter[str] = sum((one["outcomes"] for one in group), Counter())
    languages = dict.fromkeys(one["language"] for one in group)
    return {
        "said": kept(said),
        "types": {type_: kept([type_]) for type_ in TYPES},
        "languages": {code: kept(said, [one for one in group if one["language"] == code]) for code in languages},
        "worst_chat": min(kept(said, [one]) or 0 for one in group),
        "precision": standing["planted"] / known if known else None,
        "standing": {sort: size / max(total("size"), 1) for sort, size in standing.items()},
        "size": total("size") / total("covered"),
        "stale": total("stale"),
        "superseded": total("superseded"),
        "wrong": total("wrong"),
        "values": total("values"),
        "orders": total("order"),
        "read": total("read") / total("covered"),
        "outcomes": dict(outcomes),
    }


def _lost(records: Sequence[Json]) -> list[Json]:
    """What the built-in summariser and the good LLM have not kept, with the budgets at which they had not."""
    where: dict[tuple[str, str, str, str], list[float]] = {}
    for record in records:
        if record["system"] in (BUILT_IN, GOOD.name):
            for type_, language, said in record["lost"]:
                where.setdefault((record["system"], type_, language, said), []).append(record["budget"])
    return [
        {"system": system, "type": type_, "language": language, "text": said, "budgets": budgets}
        for (system, type_, language, said), budgets in where.items()
    ]


if __name__ == "__main__":
    main()
