"""Precis in the compaction-conformance-kit (PyPI, MIT), beside the compactors that come with it.

The kit hands a whole session over once and then, round for round, a compactor's own output. The service never
summarises a summary: its memory stands in the database. So an output of its own that comes back is answered with what
stands behind it, and in the first round the session is covered in five steps, as it would have grown.
"""

from collections.abc import Callable, Sequence
from typing import Any

from compaction_kit import (
    ChecklistCompactor,
    CompactedContext,
    LossyTruncationCompactor,
    NaiveSummaryCompactor,
    PinnedRulesCompactor,
    SemanticChecklistCompactor,
    SummaryTailCompactor,
    Turn,
    UpdateAwareChecklistCompactor,
    run_budget_benchmark,
)

from benchmarks.fidelity.generator import Chat
from benchmarks.fidelity.systems import Path, policy_of, precis

Json = dict[str, Any]
_OTHERS: Sequence[Callable[[], Any]] = (
    LossyTruncationCompactor,
    NaiveSummaryCompactor,
    SummaryTailCompactor,
    PinnedRulesCompactor,
    ChecklistCompactor,
    UpdateAwareChecklistCompactor,
    SemanticChecklistCompactor,
)


class PrecisCompactor:
    """The service with its built-in summariser, behind the kit's protocol."""

    name = "precis (built-in summariser)"

    def __init__(self) -> None:
        self._made = ""

    def compact(self, turns: list[Turn], round_num: int = 1, budget_chars: int | None = None) -> CompactedContext:
        """The summary of all but the newest turn, and that turn, in at most `budget_chars`."""
        if not (len(turns) == 1 and turns[0].text == self._made):
            self._made = _fitting(turns, budget_chars or 10**9)
        return CompactedContext(text=self._made, compactor_name=self.name, round_num=round_num)


def benchmark(seeds: Sequence[int], budgets: Sequence[float]) -> list[Json]:
    """The kit's own benchmark of all compactors: five rounds of randomised and semantic sessions."""
    factories = {factory().name: factory for factory in (PrecisCompactor, *_OTHERS)}
    entries: list[Json] = run_budget_benchmark(factories, budgets, seeds)["entries"]
    return entries


def _fitting(turns: Sequence[Turn], room: int) -> str:
    """The largest output that fits: budgets are tokens here, and characters there."""
    path = Path.of(_chat(turns))
    least, most = 0, min(room, sum(len(turn.text) for turn in turns)) // 2
    best = _compacted(path, turns, least)
    while most - least > 8:
        limit = (least + most) // 2
        made = _compacted(path, turns, limit)
        if len(made) <= room:
            best, least = made, limit
        else:
            most = limit
    return best


def _compacted(path: Path, turns: Sequence[Turn], limit: int) -> str:
    *_, made = precis(path, policy_of(limit, keep=2))
    newest = [turn for turn in turns if turn.role != "system"][len(made.covered) :]
    return "\n".join([made.summary, *(f"[{turn.role}] {turn.text}" for turn in newest)])


def _chat(turns: Sequence[Turn]) -> Chat:
    """A session as a chat. Its system turns are not part of one in Open WebUI, where they never become old."""
    spoken = [turn for turn in turns if turn.role != "system"]
    messages = [
        {"id": f"m{number}", "role": turn.role, "content": turn.text, "timestamp": None}
        for number, turn in enumerate(spoken)
    ]
    return Chat(0, "session", "en", messages, (), "", frozenset())
