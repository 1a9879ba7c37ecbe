"""The marks that Precis is held to, and what the floors reach of them.

In: `figures` and `rounds` of a run. Out: `Mark`s. A mark is about every LLM behind Precis, the faulty ones too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
_Value = Callable[[str], float]  # of a system
_Wanted = tuple[str, str, float, _Value]  # name, meaning, bound
_EXACT = 0.20  # from this budget on, values are asked for


@dataclass(frozen=True, slots=True)
class Mark:
    """A promise. `floors` has the same value of the systems beside Precis."""

    name: str
    meaning: str
    value: float
    bound: float
    at_least: bool
    floors: dict[str, float]

    @property
    def met(self) -> bool:
        """Whether the promise is kept."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def as_json(self) -> Json:
        """For the file of figures."""
        sign = ">=" if self.at_least else "<="
        return {
            "meaning": self.meaning,
            "value": self.value,
            "bound": f"{sign} {self.bound:g}",
            "met": self.met,
            "floors": self.floors,
        }


def marks(figures: Sequence[Json], rounds: Sequence[Json]) -> list[Mark]:
    """All marks of a run; those that need a budget of 20 % take the smallest one from there on."""
    exact = min((one["budget"] for one in rounds if one["budget"] >= _EXACT), default=rounds[0]["budget"])
    kept, found = _Of(figures), _Of(rounds)
    everywhere = "every round, budget, LLM and chat: the worst"
    least: list[_Wanted] = [
        (f"{type_}s", f"{type_}s kept, {everywhere}", 1, kept.least("worst_seed", type=type_))
        for type_ in ("constraint", "decision", "rule")
    ]
    recall, tool = found.least("value_recall", budget=exact), kept.least("survival", type="tool", budget=exact)
    least += [
        ("value_precision", "values of the summary that are right: the worst round", 1, found.least("value_precision")),
        ("value_recall", f"planted values found, budget {exact:.0%}: the worst round", 0.95, recall),
        ("tool_values", f"samples, counts, ranges of tool results, budget {exact:.0%}: the worst round", 1, tool),
    ]
    most: list[_Wanted] = [
        ("superseded_leaks", "superseded values that stand as current, in all rounds", 0, found.sum("leaks")),
        ("cliffs", "times that less than half of a type is left", 0, kept.below_half),
        ("contradictions", "items with a value not theirs: the worst round", 0.10, found.most("contradictions")),
    ]
    floors = sorted({one["system"] for one in rounds} - {"precis"})
    return [
        Mark(name, meaning, of("precis"), bound, at_least, {floor: of(floor) for floor in floors})
        for wanted, at_least in ((least, True), (most, False))
        for name, meaning, bound, of in wanted
    ]


@dataclass(frozen=True, slots=True)
class _Of:
    """Figures, to be summed up by system."""

    figures: Sequence[Json]

    def _chosen(self, **wanted: object) -> list[Json]:
        return [one for one in self.figures if all(one[key] == value for key, value in wanted.items())]

    def least(self, key: str, **wanted: object) -> _Value:
        return lambda system: min((float(one[key]) for one in self._chosen(system=system, **wanted)), default=0)

    def most(self, key: str) -> _Value:
        return lambda system: max((float(one[key]) for one in self._chosen(system=system)), default=0)

    def sum(self, key: str) -> _Value:
        return lambda system: sum(float(one[key]) for one in self._chosen(system=system))

    def below_half(self, system: str) -> float:
        return len([one for one in self._chosen(system=system) if one["survival"] < 0.5])
