"""Runs every system on every chat at every budget, in processes, and sums up.

In: seeds and budgets. Out: a `Record` for each summary; `figures` and `rounds` are their sums over the seeds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks.fidelity.generator import build
from benchmarks.fidelity.scoring import Score, Source, score
from benchmarks.fidelity.systems import Path, System, budget, systems
from service import tokens

Json = dict[str, Any]
Which = tuple[str, str, float]
"""System, LLM, budget."""


@dataclass(frozen=True, slots=True)
class Record:
    """One summary with its score. `read` is what LLMs read for this round, `covered` and `tokens` are tokens."""

    system: str
    llm: str
    budget: float
    seed: int
    round: int
    covered: int
    tokens: int
    read: int
    verdicts: Counter[str]
    score: Score

    @property
    def which(self) -> Which:
        """What is summed up over the seeds."""
        return self.system, self.llm, self.budget


def run(processes: Executor, seeds: Sequence[int], budgets: Sequence[float]) -> list[Record]:
    """All records."""
    made = processes.map(_chat, *zip(*product(seeds, budgets), strict=True))
    return [record for some in made for record in some]


def _chat(seed: int, share: float) -> list[Record]:
    path = Path.of(build(seed))
    sources: dict[int, Source] = {}
    return [record for system in systems() for record in one(path, system, share, sources)]


def one(path: Path, system: System, share: float, sources: dict[int, Source]) -> Iterator[Record]:
    """The five records of a system on one chat. `sources` is filled by number of covered messages."""
    before: Score | None = None
    for number, made in enumerate(system.run(path, budget(path, share)), 1):
        source = sources.get(len(made.covered)) or Source.of(path.chat, made.covered)
        sources[len(made.covered)] = source
        before = score(source, made.summary, before)
        size = tokens.count(made.summary)
        yield Record(
            system.name,
            system.llm,
            share,
            path.chat.seed,
            number,
            made.covered_tokens,
            size,
            made.read,
            made.verdicts,
            before,
        )


def figures(records: Iterable[Record]) -> list[Json]:
    """Survival by system, LLM, budget, type and round: kept of all, over all seeds, and in the worst of them."""
    sums: dict[tuple[Which, str, int], list[tuple[int, int]]] = defaultdict(list)
    for record in records:
        for type_, found in record.score.survival.items():
            sums[record.which, type_, record.round].append(found)
    made = [
        {
            "system": system,
            "llm": llm,
            "budget": share,
            "type": type_,
            "round": number,
            "kept": sum(kept for kept, _ in found),
            "all": sum(every for _, every in found),
            "survival": _ratio(sum(kept for kept, _ in found), sum(every for _, every in found)),
            "worst_seed": min(_ratio(*one) for one in found),
        }
        for ((system, llm, share), type_, number), found in sums.items()
    ]
    return _with_cliffs(made)


def _with_cliffs(made: list[Json]) -> list[Json]:
    """Adds the first round in which less than half of a type is left; None when there is none."""
    cliffs: dict[tuple[str, ...], int] = {}
    for figure in sorted(made, key=lambda one: -one["round"]):
        if figure["survival"] < 0.5:
            cliffs[_curve(figure)] = figure["round"]
    return [figure | {"cliff_round": cliffs.get(_curve(figure))} for figure in made]


def _curve(figure: Json) -> tuple[str, ...]:
    return figure["system"], figure["llm"], str(figure["budget"]), figure["type"]


def rounds(records: Iterable[Record]) -> list[Json]:
    """Everything that has no type, by system, LLM, budget and round, over all seeds."""
    groups: dict[tuple[Which, int], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.which, record.round].append(record)
    return [
        {"system": system, "llm": llm, "budget": share, "round": number} | _sums(group)
        for ((system, llm, share), number), group in groups.items()
    ]


def _sums(group: Sequence[Record]) -> Json:
    scores = [record.score for record in group]
    verdicts: Counter[str] = sum((record.verdicts for record in group), Counter())
    contradicted = sum(len(score.contradicted[0]) for score in scores)
    return {
        "held_out": _ratio(*_added(score.held_out for score in scores)),
        "tried": _ratio(*_added(score.tried for score in scores)),
        "value_precision": _ratio(*_added(score.values for score in scores)),
        "value_recall": _ratio(*_added(score.recall for score in scores)),
        "leaks": sum(len(score.leaks) for score in scores),
        "superseded": sum(score.superseded for score in scores),
        "contradictions": _ratio(contradicted, sum(score.contradicted[1] for score in scores), empty=0),
        "drift": _ratio(*_added(score.drift for score in scores), empty=0),
        "tool_drift": _ratio(*_added(score.tool_drift for score in scores), empty=0),
        "orders_repeated": sum(score.order for score in scores),
        "covered_tokens": sum(record.covered for record in group),
        "summary_tokens": sum(record.tokens for record in group),
        "compression": _ratio(sum(record.tokens for record in group), sum(record.covered for record in group)),
        "llm_tokens_read": sum(record.read for record in group),
        "verdicts": dict(sorted(verdicts.items())),
        "wrong_values": sorted({value for score in scores for value in score.wrong})[:20],
    }


def _added(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    found = list(pairs)
    return sum(one for one, _ in found), sum(every for _, every in found)


def _ratio(part: int, whole: int, empty: float = 1) -> float:
    return round(part / whole, 4) if whole else empty


def faults(records: Iterable[Record]) -> list[Json]:
    """What Precis lost, or shows although it holds no more, with who wrote the summary at which budgets."""
    found: dict[tuple[str, int, str], set[tuple[str, float]]] = defaultdict(set)
    for record in records:
        if record.system == "precis":
            for fault, identities in (
                ("lost", record.score.lost),
                ("leaked", record.score.leaks),
                ("contradicted", record.score.contradicted[0]),
            ):
                for identity in identities:
                    found[fault, record.seed, identity].add((record.llm, record.budget))
    items = {(seed, item.id): item for seed in {seed for _, seed, _ in found} for item in build(seed).items}
    return [
        {
            "fault": fault,
            "seed": seed,
            "type": items[seed, identity].type,
            "text": items[seed, identity].text,
            "keys": items[seed, identity].keys,
            "held_out": items[seed, identity].held_out,
            "llms": sorted({llm for llm, _ in where}),
            "budgets": sorted({share for _, share in where}),
        }
        for (fault, seed, identity), where in sorted(found.items())
    ]
