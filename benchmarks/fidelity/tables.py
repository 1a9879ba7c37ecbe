"""Tool results with known contents: tables in seven notations, nested objects, files, shells, an error.

In: a seeded random generator, column kinds. Out: the text that the tool answered, and what a record of it has to show.
Numbers are written once, as text, so that `12847.50` stays what it is.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from benchmarks.fidelity.slots import Slots

_NUMBERS = ("int", "money", "pct", "float")


@dataclass(frozen=True, slots=True)
class Shown:
    """One thing about a result that a record of it has to show on one line: exact texts."""

    what: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's answer.

    `derived` are numbers that are right although the text does not have them: counts and sums.
    `used` is a value that is taken up later.
    """

    text: str
    shown: tuple[Shown, ...]
    derived: frozenset[str] = frozenset()
    used: str = ""


@dataclass(frozen=True, slots=True)
class _Table:
    names: Sequence[str]
    kinds: Sequence[str]
    rows: Sequence[Sequence[str]]

    def column(self, place: int) -> list[str]:
        return [row[place] for row in self.rows]

    def numeric(self, place: int) -> bool:
        return self.kinds[place] in _NUMBERS

    def literal(self, place: int, cell: str) -> str:
        return cell if self.numeric(place) else json.dumps(cell, ensure_ascii=False)

    def record(self, row: Sequence[str]) -> str:
        cells = (f'"{name}": {self.literal(place, row[place])}' for place, name in enumerate(self.names))
        return "{" + ", ".join(cells) + "}"


def table(rng: random.Random, slots: Slots, columns: dict[str, str], *, only_json: bool) -> Result:
    """A table of 12 to 40 rows in a notation chosen by chance."""
    kinds = list(columns.values())
    rows = [[_cell(rng, slots, kind) for kind in kinds] for _ in range(rng.randrange(12, 41))]
    made = _Table(list(columns), kinds, rows)
    notations = _JSON if only_json else _JSON + _PLAIN
    used = _taken_up(rng, made)
    return Result(rng.choice(notations)(made), tuple(_shown(made)), _derived(made), used)


def _taken_up(rng: random.Random, made: _Table) -> str:
    """A code of a row in the middle, if the rows have codes."""
    if "code" not in made.kinds:
        return ""
    middle = made.rows[rng.randrange(1, len(made.rows) - 1)]
    return middle[made.kinds.index("code")]


def other(rng: random.Random, slots: Slots) -> tuple[str, Result]:
    """What is no table: a tool and its answer."""
    return rng.choice((_account, _file, _shell))(rng, slots)


def _account(rng: random.Random, slots: Slots) -> tuple[str, Result]:
    """A nested object."""
    used, unused = slots.make("code"), slots.make("code")
    email = slots.make("email")
    account = {
        "name": {"first": slots.make("person").split()[0], "last": slots.make("person").split()[1]},
        "contact": {"email": email, "phone": slots.make("phone")},
        "address": {"city": _common(rng, "city"), "zip": slots.make("n")},
        "cards": {
            unused: {"source": "card", "amount": rng.randrange(10, 99)},
            used: {"source": "gift", "amount": rng.randrange(10, 99)},
        },
        "history": [
            {"id": slots.make("sha"), "at": slots.make("time"), "open": bool(number % 2)} for number in range(6)
        ],
    }
    shown = (Shown("plain field", (email,)),)
    return "get_account", Result(json.dumps(account, ensure_ascii=False), shown, used=used)


def _file(rng: random.Random, slots: Slots) -> tuple[str, Result]:
    """A file with a line that matters."""
    used = slots.make("host")
    lines = [f"option_{number}: {slots.make('noise')}" for number in range(60)]
    lines.insert(rng.randrange(20, 40), f"primary: {used}")
    return "read_file", Result("\n".join(lines), (), used=used)


def _shell(rng: random.Random, slots: Slots) -> tuple[str, Result]:
    """What a shell printed."""
    used = slots.make("path")
    lines = [f"tests/test_{number}.py::test_{slots.make('noise')} PASSED" for number in range(5)]
    lines += [f"  {slots.make('noise')} checked in {slots.make('noise')} ms" for _ in range(30)]
    lines.insert(rng.randrange(5, 30), f"FAILED {used}: expected {slots.make('noise')}, was {slots.make('noise')}")
    return "run_shell", Result("$ make check\n" + "\n".join(lines) + "\nexit code 1", (), used=used)


def failure(slots: Slots) -> Result:
    """An error with an id."""
    code, limit = slots.make("code"), slots.make("n")
    text = json.dumps({"error": f"{code}: gave up after {limit} seconds"})
    return Result(text, (Shown("error", (code, "error")),))


def _shown(made: _Table) -> list[Shown]:
    """A sample (a row of the ends with its last number) and aggregates (the count, the range of the last numbers)."""
    first, last = made.rows[0], made.rows[-1]
    number = next(place for place in reversed(range(len(made.kinds))) if made.numeric(place))
    least, *_, most = sorted(made.column(number), key=Decimal)
    this = "|".join((first[0], last[0], least, most))  # any of these tells that a line is about this result
    return [
        Shown("first row", (first[0], first[number])),
        Shown("last row", (last[0], last[number])),
        Shown("row count", (this, f"{len(made.rows)} rows")),
        Shown("range", (least, most)),
    ]


def _derived(made: _Table) -> frozenset[str]:
    sums = {str(sum(map(Decimal, made.column(place)))) for place in range(len(made.kinds)) if made.numeric(place)}
    return frozenset({str(len(made.rows)), *sums})


def _cell(rng: random.Random, slots: Slots, kind: str) -> str:
    match kind:
        case "int":
            return str(rng.randrange(10, 9_999))
        case "money":
            return f"{rng.uniform(20, 99_000):.2f}"
        case "pct" | "float":
            return f"{rng.uniform(0.1, 900):.{rng.choice((1, 3))}f}"
        case "city" | "region" | "day" | "time":
            return _common(rng, kind)
        case "date":
            return f"2026-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
        case _:
            return slots.make(kind)


def _common(rng: random.Random, kind: str) -> str:
    """Cells that repeat in a table, and so are not taken from what is different in a chat."""
    common = {
        "city": ("Lyon", "Porto", "Krakow", "Gent", "Turin"),
        "region": ("eu-west-3", "eu-north-1", "us-east-2"),
        "day": ("2026-W31", "2026-W32", "2026-W33", "2026-W34"),
        "time": ("06:12", "09:48", "13:05", "17:31", "22:20"),
    }
    return rng.choice(common[kind])


def _list(made: _Table) -> str:
    return "[" + ", ".join(map(made.record, made.rows)) + "]"


def _nested(made: _Table) -> str:
    return f'{{"status": "ok", "result": {{"took_ms": 41, "rows": {_list(made)}}}}}'


def _columns(made: _Table) -> str:
    rows = (", ".join(made.literal(place, cell) for place, cell in enumerate(row)) for row in made.rows)
    return json.dumps({"columns": list(made.names)})[:-1] + ', "data": [[' + "], [".join(rows) + "]]}"


def _arrays(made: _Table) -> str:
    arrays = (
        f'"{name}": [' + ", ".join(made.literal(place, cell) for cell in made.column(place)) + "]"
        for place, name in enumerate(made.names)
    )
    return "{" + ", ".join(arrays) + "}"


def _separated(made: _Table, by: str) -> str:
    return "\n".join(by.join(row) for row in (made.names, *made.rows))


def _markdown(made: _Table) -> str:
    lines = (made.names, ["---"] * len(made.names), *made.rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


_JSON: list[Callable[[_Table], str]] = [_list, _nested, _columns, _arrays]
_PLAIN: list[Callable[[_Table], str]] = [
    lambda made: _separated(made, ","),
    lambda made: _separated(made, ";"),
    _markdown,
]
