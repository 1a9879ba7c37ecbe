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
_KEY = 4 * _NAME  # characters of a key in a path; the paths of all nested values repeat them
_START = 400  # characters within which an array begins
_KEYED = 12  # so many numbers under keys are a table
_EVEN = 0.8  # share of a text's lines that a table has to take to be the whole text
_MARKS = ",;\t|"
_MOMENT = re.compile(r"\A\W*+\d{1,4}[-/:.]\d{1,2}[-/:.T ]")
_RULE = re.compile(r"\A[\s|+:=]*+-[\s|+:=-]*+")
_BAR = re.compile(r"(?<!\\)\|")
_FIGURE = re.compile(r"[+-]?[0-9][0-9.,]*%?")
_COMMA = re.compile(r"\s*+,?\s*+")
_NAMES = ("columns", "column_names", "header", "headers", "fields", "schema")
_ROWS = ("rows", "data", "values", "records", "result")
_ENDS_NO_NAME = (".", ":", "{", "(")


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
        """Name and cells of each column; a column of objects gives one for each of their keys."""
        for place, name in enumerate(self.names):
            cells = self._column(place)
            if cells and all(isinstance(cell, dict) for cell in cells):
                yield from _inner_columns(name, cells)
            else:
                yield name, cells

    def _column(self, place: int) -> list[Any]:
        long_enough = (row for row in self.rows if place < len(row))
        return [row[place] for row in long_enough if row[place] is not ABSENT]


def _inner_columns(
    name: str, cells: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, list[Any]]]:
    for key in list(cells[0])[:_COLUMNS]:
        yield f"{name}.{key}", [cell[key] for cell in cells if key in cell]


@dataclass(frozen=True, slots=True)
class Found:
    """The largest table of a JSON value, where it was, and what stood beside it."""

    table: Table | None = None
    path: str = ""
    beside: dict[str, Any] = field(default_factory=dict)
    others: Sequence[tuple[str, int]] = ()


# ---- where a table may be


def in_value(value: Any) -> Found:  # noqa: ANN401 - a tool's JSON
    """The largest table of a value; the single values outside of tables are `beside`, by path."""
    found, beside = _searched(value)
    if not found:
        return Found(beside=beside)
    # Rows of objects say more than a long list of single values, so they are preferred.
    path, table = max(found, key=lambda pair: (pair[1].what == "rows", len(pair[1].rows)))
    others = [(name, len(other.rows)) for name, other in found if other is not table]
    return Found(table, path, beside, others)


def _searched(value: Any) -> tuple[list[tuple[str, Table]], dict[str, Any]]:  # noqa: ANN401
    """Tables and single values by their paths, from the outside in."""
    found: list[tuple[str, Table]] = []
    beside: dict[str, Any] = {}
    queue: deque[tuple[str, Any, int]] = deque([("", value, 0)])
    visits = 0
    while queue and visits < _VISITS:
        visits += 1
        path, one, level = queue.popleft()
        table = records(one)
        if table is not None:
            found.append((path, table))
            continue
        if not isinstance(one, dict) or level >= _LEVELS:
            continue
        for key, cell in one.items():
            name = f"{path}.{key[:_KEY]}" if path else key[:_KEY]
            if not isinstance(cell, dict | list):
                beside[name] = cell
            elif cell:
                queue.append((name, cell, level + 1))
    return found, beside


def in_text(text: str) -> Table | None:
    """A text that is a table as a whole: JSON lines, Markdown or psql, CSV."""
    lines = text.splitlines()
    return _json_lines(lines) or _ruled(lines, share=_EVEN) or _separated(text, lines)


def within(text: str) -> Table | None:
    """The first Markdown table inside a text."""
    return _ruled(text.splitlines(), share=0)


def cut_off(text: str) -> Table | None:
    """The complete objects of a JSON array that ends in the middle.

    Tools that bound their output leave it like that.
    """
    rows = []
    place = text.find("[{", 0, _START) + 1  # 0: there is no array
    while place and text.startswith("{", place):
        row, end = parsed_from(text, place)
        if row is None:
            break
        rows.append(row)
        comma = _COMMA.match(text, end)
        place = comma.end() if comma else end
    return _of_objects(rows) if len(rows) > 1 else None


# ---- JSON values


def records(value: Any) -> Table | None:  # noqa: ANN401 - a tool's JSON
    """The table that an array or an object is by itself."""
    if not value:
        return None
    if isinstance(value, list):
        return _of_list(value)
    if isinstance(value, dict):
        return _named(value) or _columnar(value) or _keyed(value)
    return None


def alike(cells: Sequence[Any]) -> bool:
    """Whether all are objects with the same keys, so that the keys they stand under are data."""
    first = cells[0]
    if not isinstance(first, dict) or not first:
        return False
    return all(isinstance(cell, dict) and cell.keys() == first.keys() for cell in cells)


def _of_list(values: Sequence[Any]) -> Table:
    if all(isinstance(one, dict) for one in values):
        return _of_objects(values)
    # A single array in an array is more often a wrapping than a row.
    if len(values) > 1 and all(isinstance(one, list) and one for one in values):
        return _of_groups(values) or _of_arrays(values)
    return Table(("",), [(one,) for one in values], "items")


def _of_objects(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = list(dict.fromkeys(chain.from_iterable(rows)))[:_COLUMNS]
    return Table(names, [[row.get(name, ABSENT) for name in names] for row in rows])


def _of_groups(groups: Sequence[Sequence[Any]]) -> Table | None:
    """Arrays of objects are rows too."""
    rows = list(chain.from_iterable(groups))
    return _of_objects(rows) if all(isinstance(row, dict) for row in rows) else None


def _of_arrays(rows: Sequence[Sequence[Any]]) -> Table:
    if _is_head(rows[0], rows[1]):
        return Table(rows[0], rows[1:])
    return Table(_numbered(len(rows[0])), rows)


def _is_head(head: Sequence[Any], below: Sequence[Any]) -> bool:
    """Whether an array has names: different texts, with something else below one of them."""
    if not all(type(cell) is str for cell in head) or len(set(head)) < len(head):
        return False
    # `Number` is a `str` too, so types are compared and not asked for.
    return any(type(one) is not type(other) for one, other in zip(head, below, strict=False))


def _numbered(count: int) -> list[str]:
    return [f"column {place + 1}" for place in range(count)]


def _named(value: Mapping[str, Any]) -> Table | None:
    """Names of columns under one key, arrays of cells under another."""
    lists = {key: one for key, one in value.items() if isinstance(one, list)}
    names_key = next((key for key in _NAMES if lists.get(key)), None)
    if names_key is None:
        return None
    names = [_name_of(one) for one in lists.pop(names_key)]
    for key, rows in lists.items():
        if _are_rows(key, rows, len(names)):
            return Table(names, rows)
    return None


def _name_of(column: Any) -> str:  # noqa: ANN401 - a tool's JSON
    """A column is described by its name, or by an object that has it."""
    return str(column.get("name") if isinstance(column, dict) else column)


def _are_rows(key: str, rows: Sequence[Any], width: int) -> bool:
    if not rows:
        return key in _ROWS  # a query without a match; any other empty list says nothing
    return all(isinstance(row, list) and len(row) == width for row in rows)


def _columnar(value: Mapping[str, Any]) -> Table | None:
    """An array of scalars for each column, or an object of row numbers (as pandas writes it)."""
    columns = list(value.values())
    if all(map(_is_array_of_scalars, columns)):
        even = len(columns) > 1 and len(set(map(len, columns))) == 1
    elif all(map(_is_numbered, columns)):
        even = len(set(map(tuple, columns))) == 1
        columns = [list(one.values()) for one in columns]
    else:
        return None
    if not even:
        return None
    rows = list(zip(*columns[:_COLUMNS], strict=True))
    return Table(list(value)[:_COLUMNS], rows)


def _is_array_of_scalars(one: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    return isinstance(one, list) and bool(one) and not isinstance(one[0], dict | list)


def _is_numbered(one: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    return isinstance(one, dict) and next(iter(one), "") == "0"


def _keyed(value: Mapping[str, Any]) -> Table | None:
    """Equal objects under keys, or many numbers under keys."""
    cells = list(value.values())
    # A handful of numbers are the fields of one object: `{"width": 3, "height": 4}`.
    if len(cells) >= _KEYED and all(isinstance(one, Number) for one in cells):
        return Table(("key", "value"), list(value.items()))
    if len(cells) > 2 and alike(cells):
        return _of_objects([{"key": key, **one} for key, one in value.items()])
    return None


# ---- texts


def _json_lines(lines: Sequence[str]) -> Table | None:
    written = [line for line in lines if line.strip()]
    if len(written) < 2 or not all(line.lstrip().startswith("{") for line in written):
        return None
    rows = [parsed(line) for line in written]
    return _of_objects(rows) if all(isinstance(row, dict) for row in rows) else None


def _ruled(lines: Sequence[str], share: float) -> Table | None:
    """A head, a rule of dashes below it, and rows with bars.

    They have to be at least `share` of the lines with text.
    """
    rule = _first_rule(lines)
    if not rule:
        return None
    head = lines[rule - 1]
    outer = head.lstrip().startswith("|")
    body = list(_cells(lines[rule + 1 :], outer))
    with_text = sum(bool(one.strip()) and not one.startswith("+-") for one in lines)
    if not body or len(body) + 2 < share * with_text:
        return None
    return Table(_bars(head, outer), body)


def _first_rule(lines: Sequence[str]) -> int:
    """The place of the first rule below a line with bars; 0 when there is none."""
    for place in range(1, len(lines)):
        if _is_rule(lines[place]) and "|" in lines[place - 1]:
            return place
    return 0


def _is_rule(line: str) -> bool:
    return "-" in line and ("|" in line or "+" in line) and bool(_RULE.fullmatch(line))


def _cells(lines: Iterable[str], outer: bool) -> Iterator[list[str]]:
    for line in lines:
        if "|" in line:
            yield _bars(line, outer)
        elif not line.startswith("+-"):  # psql draws such a rule below its last row
            return


def _bars(line: str, outer: bool) -> list[str]:
    line = line.strip()
    if outer:
        line = line.removeprefix("|")
        if not line.endswith("\\|"):
            line = line.removesuffix("|")
    cells = _BAR.split(line) if "\\" in line else line.split("|")
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _separated(text: str, lines: Sequence[str]) -> Table | None:
    """CSV by comma, semicolon, tab or bar, with or without a head."""
    mark = _separator(lines)
    rows = _read_csv(text, mark) if mark else []
    if len(rows) < 2 or not _is_regular(rows):
        return None
    head, *body = rows
    head = [name.strip() for name in head]
    if any(map(_FIGURE.fullmatch, head)):  # data begin in the first line
        return Table(_numbered(len(head)), rows) if len(rows) > 2 else None
    return Table(head[:_COLUMNS], body) if _are_names(head, body) else None


def _separator(lines: Sequence[str]) -> str | None:
    """The mark that divides the first lines evenly, into the most cells."""
    start = "\n".join(lines[:12])
    widths = {mark: _width(start, mark) for mark in _MARKS if mark in lines[0]}
    mark = max(widths, key=lambda one: widths[one], default=None)
    return mark if mark and widths[mark] > 1 else None


def _width(start: str, mark: str) -> int:
    """Cells in each of the first rows, or 0 when they differ."""
    widths = {len(row) for row in _read_csv(start, mark)[:10]}
    return widths.pop() if len(widths) == 1 else 0


def _is_regular(rows: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all rows are as wide as a first one that may be a head."""
    head, *body = rows
    even = sum(len(row) == len(head) for row in body)
    if even < len(body) * 9 // 10 or any(len(name) > _NAME for name in head):
        return False
    # A head does not begin with a date or a time: that is a log, with a comma in its times.
    return not _MOMENT.match(head[0])


def _are_names(head: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether a first row without figures is a head, rather than a line of prose or code."""
    if any(name.endswith(_ENDS_NO_NAME) for name in head):
        return False
    if len(body) > 1:
        return True
    # Any two lines of prose may have a comma each, so a single row has to look like data.
    return all(head) and any(_FIGURE.fullmatch(cell.strip()) for cell in body[0])


def _read_csv(text: str, mark: str) -> list[list[str]]:
    reader = csv.reader(StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)
    try:
        return [row for row in reader if row]
    except csv.Error:
        return []
