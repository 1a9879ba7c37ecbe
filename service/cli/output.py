"""Output of commands: JSON as the service answers it, or tables and lines for people.

No control character of others' text reaches a terminal: an id, a model's name, an error or a
summary may carry escape sequences, which a terminal would obey.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from service.text.characters import escape_hidden

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_BETWEEN: Final = "  "  # columns

Command = TypeVar("Command", bound=Callable[..., Any])
JsonObject = Mapping[str, Any]

as_json = click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")


def paged(command: Command) -> Command:
    """The options of a command that lists something page by page."""
    limit = click.option("--limit", type=int, default=50, show_default=True, help="Most rows.")
    cursor = click.option("--cursor", help="The value that the page before names at its end.")
    return as_json(limit(cursor(command)))


def say(line: str, *, err: bool = False) -> None:
    """Prints a line for people."""
    click.echo(escape_hidden(line), err=err)


def print_json(answer: object) -> None:
    """Prints an answer as JSON, in ASCII, so that no character of a chat reaches a terminal."""
    click.echo(json.dumps(answer, indent=2).replace("\x7f", "\\u007f"))


def print_page(page: JsonObject, rows: str, fields: str, as_json: bool) -> None:
    """Prints a page of a list: the `fields` of its `rows`, and how to get the next page."""
    if as_json:
        print_json(page)
        return
    print_table(page[rows], fields)
    if page.get("next") is not None:
        say(f"There are more: --cursor {page['next']}")


def print_object(values: JsonObject, title: str = "") -> None:
    """Prints a line for each value, except for empty ones and lists of objects."""
    shown = [
        {"name": _format_heading(name), "value": _format_cell(name, values[name])}
        for name in values
    ]
    print_table([row for row in shown if row["value"]], "name value", title)


def print_table(rows: Sequence[JsonObject], fields: str, title: str = "") -> None:
    """Prints a line for each row, below the title and the names of `fields`; cuts nothing off."""
    names = fields.split()
    lines = [[_format_heading(name) for name in names]]
    lines += [[_format_cell(name, row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if title:
        say(f"\n{title}:")
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        click.echo(_BETWEEN.join(padded).rstrip())


def _format_heading(field: str) -> str:
    return field.removesuffix("_id").removesuffix("_at").replace("_", " ")


def _format_cell(field: str, value: Any) -> str:  # noqa: ANN401 - JSON
    """A value on one line; "" for none and for a list of objects."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _format_number(field, value)
    return " ".join(escape_hidden(_format_text(value)).split())


def _format_number(field: str, value: float) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return str(value) if field == "id" or field.endswith("_id") else f"{value:,}"


def _format_text(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        # A zero or an empty value would hide the others.
        parts = [
            f"{_format_heading(name)} {_format_cell(name, one)}"
            for name, one in value.items()
            if one
        ]
        return ", ".join(parts)
    if isinstance(value, list):
        return ", ".join(str(one) for one in value if not isinstance(one, dict))
    if value is not None and _MOMENT.fullmatch(value):
        return str(value[:19].replace("T", " "))
    return value or ""
