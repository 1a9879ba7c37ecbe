"""Finds the rows in a tool's result: in a JSON value, or in the lines of a text. Pure.

Cells stand as in the source. Work is bounded, and no text is read more than a few times.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from typing import Any

from service.summarising.ledger.values import Number, parsed, parsed_from

_COLUMNS = 40  # are read; a row is shown with fewer
_NAME = 60  # characters that a column's name has at most
_START = 400  # characters within which an array begins
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

Row = dict[str, Any]
"""Cells by the name of their column, without those that a row does not have."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and the names of all of their columns."""

    names: Sequence[str]
    rows: Sequence[Row]


def of_value(value: Any) -> Table | None:  # noqa: ANN401 - a tool's JSON
    """The table that an array or an object is by itself."""
    if isinstance(value, dict):
        return _named(value)
    if not isinstance(value, list) or len(value) < 2:
        return None
    if all(isinstance(one, dict) for one in value):
        return _of_objects(value)
    if all(isinstance(one, list) and one for one in value):
        return _of_arrays(value)
    return None


def of_text(text: str) -> Table | None:
    """A text that is a table as a whole: JSON lines, Markdown or psql, CSV."""
    lines = text.splitlines()
    return _json_lines(lines) or _ruled(lines) or _separated(text, lines)


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


def _of_objects(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = list(dict.fromkeys(chain.from_iterable(rows)))[:_COLUMNS]
    return Table(names, [dict(row) for row in rows])


def _of_cells(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    kept = names[:_COLUMNS]
    return Table(kept, [dict(zip(kept, row, strict=False)) for row in rows])


def _of_arrays(rows: Sequence[Sequence[Any]]) -> Table:
    if _is_head(rows[0], rows[1]):
        return _of_cells(rows[0], rows[1:])
    return _of_cells(_numbered(len(rows[0])), rows)


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
            return _of_cells(names, rows)
    return None


def _name_of(column: Any) -> str:  # noqa: ANN401 - a tool's JSON
    """A column is described by its name, or by an object that has it."""
    return str(column.get("name") if isinstance(column, dict) else column)


def _are_rows(key: str, rows: Sequence[Any], width: int) -> bool:
    if not rows:
        return key in _ROWS  # a query without a match; any other empty list says nothing
    return all(isinstance(row, list) and len(row) == width for row in rows)


# ---- texts


def _json_lines(lines: Sequence[str]) -> Table | None:
    written = [line for line in lines if line.strip()]
    if len(written) < 2 or not all(line.lstrip().startswith("{") for line in written):
        return None
    rows = [parsed(line) for line in written]
    return _of_objects(rows) if all(isinstance(row, dict) for row in rows) else None


def _ruled(lines: Sequence[str]) -> Table | None:
    """A head, a rule of dashes below it, and rows with bars: most of the lines with text."""
    rule = _first_rule(lines)
    if not rule:
        return None
    head = lines[rule - 1]
    outer = head.lstrip().startswith("|")
    body = list(_cells(lines[rule + 1 :], outer))
    with_text = sum(bool(one.strip()) and not one.startswith("+-") for one in lines)
    if not body or len(body) + 2 < _EVEN * with_text:
        return None
    return _of_cells(_bars(head, outer), body)


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
        return _of_cells(_numbered(len(head)), _as_cells(rows)) if len(rows) > 2 else None
    return _of_cells(head, _as_cells(body)) if _are_names(head, body) else None


def _as_cells(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    for row in rows:
        yield [Number(cell) if _FIGURE.fullmatch(cell) else cell for cell in row]


def _separator(lines: Sequence[str]) -> str | None:
    """The mark that divides the first lines evenly, into the most cells."""
    start = "\n".join(lines[:12])
    widths = {mark: _width(start, mark) for mark in _MARKS if lines and mark in lines[0]}
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
