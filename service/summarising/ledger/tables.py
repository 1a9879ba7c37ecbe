"""Finds the rows in a tool result: under any key of a JSON value, or in the lines of a text.

In: a parsed JSON value or a text. Out: a `Table`, its cells as they stand in the source. Work is
bounded: a value is searched some levels deep and some hundred objects wide, and no text is read
more than a few times.
"""

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain
from typing import Any

from service.summarising.ledger.wording import Number, parsed, parsed_from

ABSENT = object()
"""The cell of a row that has no value under a name."""

_COLUMNS = 40  # are read; a row is shown with fewer
_LEVELS = 6
_VISITS = 400  # objects and arrays that are looked into
_NAME = 60  # characters that a column's name has at most
_KEY = 4 * _NAME  # characters of a key that its path has; each of what is below it repeats them
_START = 400  # characters within which an array begins
_KEYED = 12  # so many numbers under keys are a table
_MOMENT = re.compile(r"\A\W*+\d{1,4}[-/:.]\d{1,2}[-/:.T ]")
_RULE = re.compile(r"\A[\s|+:=]*+-[\s|+:=-]*+")
_BAR = re.compile(r"(?<!\\)\|")
_FIGURE = re.compile(r"[+-]?[0-9][0-9.,]*%?")
_COMMA = re.compile(r"\s*+,?\s*+")
_NAMES = ("columns", "column_names", "header", "headers", "fields", "schema")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; `what` they are called in the plural."""

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    what: str = "rows"

    def row(self, place: int) -> dict[str, Any]:
        """The row as an object, without the cells that it does not have."""
        cells = zip(self.names, self.rows[place], strict=False)
        return {name: cell for name, cell in cells if cell is not ABSENT}

    def columns(self) -> Iterator[tuple[str, list[Any]]]:
        """Name and cells of each column, and of what lies one level below it."""
        for place, name in enumerate(self.names):
            cells = [
                row[place] for row in self.rows if place < len(row) and row[place] is not ABSENT
            ]
            if cells and all(isinstance(cell, dict) for cell in cells):
                inner = list(cells[0])[:_COLUMNS]
                yield from (
                    (f"{name}.{key}", [cell[key] for cell in cells if key in cell]) for key in inner
                )
            else:
                yield name, cells


@dataclass(frozen=True, slots=True)
class Found:
    """The largest table of a JSON value, where it was, and what stood beside it."""

    table: Table | None = None
    path: str = ""
    beside: dict[str, Any] = field(default_factory=dict)
    others: Sequence[tuple[str, int]] = ()


def in_value(value: Any) -> Found:  # noqa: ANN401 - a tool's JSON
    """Searches objects from the outside in; a value in the way is what stands `beside`, under its path."""
    found: list[tuple[str, Table]] = []
    beside: dict[str, Any] = {}
    queue: deque[tuple[str, Any, int]] = deque([("", value, 0)])
    for _ in range(_VISITS):
        if not queue:
            break
        path, one, level = queue.popleft()
        table = records(one)
        if table is not None:
            found.append((path, table))
        elif isinstance(one, dict) and level < _LEVELS:
            inner = [
                (f"{path}.{key[:_KEY]}" if path else key[:_KEY], cell) for key, cell in one.items()
            ]
            queue += [
                (name, cell, level + 1)
                for name, cell in inner
                if isinstance(cell, dict | list) and cell
            ]
            beside |= {name: cell for name, cell in inner if not isinstance(cell, dict | list)}
    if not found:
        return Found(beside=beside)
    path, table = max(found, key=lambda pair: (pair[1].what == "rows", len(pair[1].rows)))
    others = [(name, len(other.rows)) for name, other in found if other is not table]
    return Found(table, path, beside, others)


def in_text(text: str) -> Table | None:
    """A text that is a table as a whole: JSON lines, Markdown or psql, CSV."""
    lines = text.splitlines()
    return _json_lines(lines) or _ruled(lines, share=0.8) or _separated(text, lines)


def within(text: str) -> Table | None:
    """The first Markdown table inside a text."""
    return _ruled(text.splitlines(), share=0)


def cut_off(text: str) -> Table | None:
    """The whole objects of a JSON array that ends in the middle, as tools leave it that bound their output."""
    place, rows = text.find("[{", 0, _START) + 1, []
    while place and text.startswith("{", place):
        row, end = parsed_from(text, place)
        if row is None:
            break
        rows.append(row)
        comma = _COMMA.match(text, end)
        place = comma.end() if comma else end
    return _of_objects(rows) if len(rows) > 1 else None


def records(value: Any) -> Table | None:  # noqa: ANN401 - a tool's JSON
    """The table that an array or an object is by itself."""
    if isinstance(value, list) and value:
        if all(isinstance(row, dict) for row in value):
            return _of_objects(value)
        if len(value) > 1 and all(isinstance(row, list) and row for row in value):
            return _of_groups(value) or _of_arrays(value)
        return Table(("",), [(item,) for item in value], "items")
    if isinstance(value, dict) and value:
        return _named(value) or _columnar(value) or _keyed(value)
    return None


def _of_objects(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = list(dict.fromkeys(chain.from_iterable(rows)))[:_COLUMNS]
    return Table(names, [[row.get(name, ABSENT) for name in names] for row in rows])


def _of_groups(groups: Sequence[Sequence[Any]]) -> Table | None:
    """Arrays of objects are rows too."""
    rows = list(chain.from_iterable(groups))
    return _of_objects(rows) if all(isinstance(row, dict) for row in rows) else None


def _of_arrays(rows: Sequence[Sequence[Any]]) -> Table:
    head = rows[0]
    named = all(type(cell) is str for cell in head) and len(set(head)) == len(head)
    if named and any(
        type(one) is not type(other) for one, other in zip(head, rows[1], strict=False)
    ):
        return Table(head, rows[1:])
    return Table(_numbered(len(head)), rows)


def _numbered(count: int) -> list[str]:
    return [f"column {place + 1}" for place in range(count)]


def _named(value: Mapping[str, Any]) -> Table | None:
    """Names of columns under one key, arrays of cells under another."""
    key = next((name for name in _NAMES if isinstance(value.get(name), list) and value[name]), None)
    if key is None:
        return None
    titles = [str(one.get("name") if isinstance(one, dict) else one) for one in value[key]]
    for other, rows in value.items():
        if other == key or not isinstance(rows, list):
            continue
        if rows and all(isinstance(row, list) and len(row) == len(titles) for row in rows):
            return Table(titles, rows)
        if not rows and other in ("rows", "data", "values", "records", "result"):
            return Table(titles, [])
    return None


def _columnar(value: Mapping[str, Any]) -> Table | None:
    """An array of scalars for each column, or an object of row numbers for each (as pandas writes it)."""
    columns = list(value.values())
    if all(
        isinstance(one, list) and one and not isinstance(one[0], dict | list) for one in columns
    ):
        even = len(columns) > 1 and len(set(map(len, columns))) == 1
    elif all(isinstance(one, dict) and next(iter(one), "") == "0" for one in columns):
        even = len(set(map(tuple, columns))) == 1
        columns = [list(one.values()) for one in columns]
    else:
        return None
    return (
        Table(list(value)[:_COLUMNS], list(zip(*columns[:_COLUMNS], strict=True))) if even else None
    )


def _keyed(value: Mapping[str, Any]) -> Table | None:
    """Equal objects under keys, or many numbers under keys."""
    cells = list(value.values())
    if len(cells) >= _KEYED and all(isinstance(one, Number) for one in cells):
        return Table(("key", "value"), list(value.items()))
    if len(cells) > 2 and all(
        isinstance(one, dict) and one and one.keys() == cells[0].keys() for one in cells
    ):
        return _of_objects([{"key": key, **one} for key, one in value.items()])
    return None


def _json_lines(lines: Sequence[str]) -> Table | None:
    written = [line for line in lines if line.strip()]
    if len(written) < 2 or not all(line.lstrip().startswith("{") for line in written):
        return None
    rows = [parsed(line) for line in written]
    return _of_objects(rows) if all(isinstance(row, dict) for row in rows) else None


def _ruled(lines: Sequence[str], share: float) -> Table | None:
    """A head, a rule of dashes below it, and rows with bars, which are at least `share` of the lines with text."""
    rules = (
        place
        for place in range(1, len(lines))
        if _is_rule(lines[place]) and "|" in lines[place - 1]
    )
    place = next(rules, 0)
    if not place:
        return None
    outer = lines[place - 1].lstrip().startswith("|")
    body = list(_cells(lines[place + 1 :], outer))
    if not body or (len(body) + 2) < share * sum(
        bool(one.strip()) and not one.startswith("+-") for one in lines
    ):
        return None
    return Table(_bars(lines[place - 1], outer), body)


def _is_rule(line: str) -> bool:
    return "-" in line and ("|" in line or "+" in line) and bool(_RULE.fullmatch(line))


def _cells(lines: Iterable[str], outer: bool) -> Iterator[list[str]]:
    for line in lines:
        if "|" in line:
            yield _bars(line, outer)
        elif not line.startswith("+-"):
            return


def _bars(line: str, outer: bool) -> list[str]:
    line = line.strip()
    if outer:
        line = line.removeprefix("|")
        line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    cells = _BAR.split(line) if "\\" in line else line.split("|")
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _separated(text: str, lines: Sequence[str]) -> Table | None:
    """CSV by comma, semicolon, tab or bar: the one that divides the first lines most evenly."""
    start = "\n".join(lines[:12])
    widths = {mark: _width(start, mark) for mark in ",;\t|" if mark in lines[0]}
    mark = max(widths, key=lambda one: widths[one], default=None)
    if mark is None or widths[mark] < 2:
        return None
    rows = _read_csv(text, mark)
    if len(rows) < 2:
        return None
    head, *body = rows
    even = sum(len(row) == len(head) for row in body)
    # A head does not begin with a date or a time: that is a log, with a comma in its times.
    if (
        even < len(body) * 9 // 10
        or any(len(name) > _NAME for name in head)
        or _MOMENT.match(head[0])
    ):
        return None
    head = [name.strip() for name in head]
    if any(_FIGURE.fullmatch(name) for name in head):
        return Table(_numbered(len(head)), rows) if len(rows) > 2 else None
    if len(body) == 1 and not (
        all(head) and any(_FIGURE.fullmatch(cell.strip()) for cell in body[0])
    ):
        return None  # two lines with a comma each
    if any(name.endswith((".", ":", "{", "(")) for name in head):
        return None
    return Table(head[:_COLUMNS], body)


def _width(start: str, mark: str) -> int:
    """Cells in each of the first rows, or 0 when they differ."""
    widths = {len(row) for row in _read_csv(start, mark)[:10]}
    return widths.pop() if len(widths) == 1 else 0


def _read_csv(text: str, mark: str) -> list[list[str]]:
    try:
        return [
            row
            for row in csv.reader(StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)
            if row
        ]
    except csv.Error:
        return []
