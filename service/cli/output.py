"""What commands print of an answer of the REST API: JSON as it is, or tables and lines for people.

No control character of others' text reaches a terminal: an id, a model's name, an error or a
summary may carry escape sequences, which a terminal would obey.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

import click

from service.text.characters import escape_hidden

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_BETWEEN: Final = "  "  # columns

Command = TypeVar("Command", bound=Callable[..., Any])
JsonObject = Mapping[str, Any]

as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
without_asking = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def paged(command: Command) -> Command:
    """The options of a command that lists something page by page."""
    limit = click.option("--limit", type=int, default=50, show_default=True, help="Most rows.")
    cursor = click.option("--cursor", help="What the page before names at its end.")
    return as_json(limit(cursor(command)))


def confirm(question: str, yes: bool = False) -> None:
    """Goes on only if somebody says yes, with the option or when asked."""
    if not yes:
        click.confirm(question, abort=True, err=True)


def say(line: str, *, err: bool = False) -> None:
    """A line for people."""
    click.echo(escape_hidden(line), err=err)


def print_json(answer: object) -> None:
    """An answer as JSON, in ASCII, so that no character of a chat's reaches a terminal."""
    click.echo(json.dumps(answer, indent=2).replace("\x7f", "\\u007f"))


def print_page(page: JsonObject, rows: str, fields: str, as_json: bool) -> None:
    """A page of a list: its `rows` as `print_table` has them, and how to get the next page."""
    if as_json:
        print_json(page)
        return
    print_table(page[rows], fields)
    if page.get("next") is not None:
        say(f"There are more: --cursor {page['next']}")


def print_answer(
    answer: JsonObject,
    as_json: bool,
    title: str = "",
    columns: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Any answer: a line for each of its values, then a table for each list of objects.

    `columns` are the fields of a list as `print_table` takes them, by the list's name; else all.
    """
    if as_json:
        print_json(answer)
        return
    plain = [{"name": _heading(name), "value": _cell(name, answer[name])} for name in answer]
    plain = [row for row in plain if row["value"]]
    if plain:
        print_table(plain, "name value", title)
    for name, value in answer.items():
        if _is_list(value):
            _print_list(name, value, columns)
        elif _is_deep(value):
            print_answer(value, as_json, name, columns)


def _print_list(name: str, rows: Sequence[JsonObject], columns: Mapping[str, str]) -> None:
    """A table of the rows, with the fields of their objects beside their own."""
    flat = [_flattened(row) for row in rows]
    fields = dict.fromkeys(field for row in flat for field in row)
    print_table(flat, columns.get(name) or " ".join(fields), name)


def print_table(rows: Sequence[JsonObject], fields: str, title: str = "") -> None:
    """A line for each row, below the title and the names of `fields`; nothing is cut off."""
    names = fields.split()
    lines = [[_heading(name) for name in names]]
    lines += [[_cell(name, row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if title:
        say(f"\n{_heading(title)}:")
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        click.echo(_BETWEEN.join(padded).rstrip())


def _is_list(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)


def _is_deep(value: object) -> bool:
    """Whether an object has objects, too many for a line."""
    if not isinstance(value, dict):
        return False
    return any(isinstance(one, dict) or _is_list(one) for one in value.values())


def _flattened(row: JsonObject) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat


def _heading(field: str) -> str:
    return field.removesuffix("_id").removesuffix("_at").replace("_", " ")


def _cell(field: str, value: Any) -> str:  # noqa: ANN401 - JSON
    """A value on one line; nothing for what needs a table."""
    if value is None or _is_list(value) or _is_deep(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(field, value)
    return " ".join(escape_hidden(_text(value)).split())


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        # What is nothing or zero would hide the rest.
        parts = [f"{_heading(name)} {_cell(name, one)}" for name, one in value.items() if one]
        return ", ".join(parts)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value[:19].replace("T", " ") if _MOMENT.fullmatch(value) else str(value)


def _number(field: str, value: float) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value >= 1 else f"{value:.4g}"
    return str(value) if field == "id" or field.endswith("_id") else f"{value:,}"
