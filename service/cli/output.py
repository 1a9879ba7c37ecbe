"""What commands print: no control character of others' text reaches a terminal.

An id, a model's name, an error or a summary may carry escape sequences, which a terminal would
obey, or what reads like markup of ours.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import typer
from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from service.text.characters import shown as shown

_LEAST: Final = {"chat": 36, "reason": 20}  # columns that a terminal keeps for these
_ONE_LINE: Final = frozenset({"key", "at", "since", "updated", "created", "revoked"})
_NO_END: Final = 100_000  # columns


def add_row(table: Table, *cells: str) -> None:
    """A row of texts that are not ours: nothing in them is markup, and nothing is cut off."""
    table.add_row(*(Text(cell, overflow="fold") for cell in cells))


def print_rows(
    to: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    least: Sequence[str] = (),
) -> None:
    """A table of texts that are not ours; the column `chat` is kept on one line.

    What is no terminal gets all columns, as wide as they are. In a terminal that is too narrow, the
    columns in `least` are left out, the first one first, and it is said.
    """
    shown_columns, left_out = list(columns), list[str]()
    table = _table(shown_columns, columns, rows)
    for name in least if to.is_terminal else ():
        if _measured(to, table).minimum <= to.width:
            break
        shown_columns.remove(name)
        left_out.append(name)
        table = _table(shown_columns, columns, rows)
    print_table(to, table)
    if left_out:
        to.print(f"[dim]Not shown for want of room: {', '.join(left_out)}; --json has all.[/]")


def print_table(to: Console, table: Table) -> None:
    """A table, in what is no terminal as wide as its cells are."""
    if to.is_terminal:
        to.print(table)
        return
    wide = _measured(to, table).maximum
    with _width(to, max(to.width, wide)):
        to.print(table)


def _measured(to: Console, table: Table) -> Measurement:
    # Without an end, because a measurement never exceeds the width that it is taken at.
    return Measurement.get(to, to.options.update(max_width=_NO_END), table)


def _table(names: Sequence[str], columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(
        *(
            Column(name, overflow="fold", min_width=_LEAST.get(name), no_wrap=name in _ONE_LINE)
            for name in names
        )
    )
    places = [columns.index(name) for name in names]
    for row in rows:
        add_row(table, *(row[place] for place in places))
    return table


@contextmanager
def _width(to: Console, width: int) -> Iterator[None]:
    before, to.width = to.width, width
    try:
        yield
    finally:
        to.width = before


def print_json(found: object) -> None:
    """What a command found, as the REST API answers it.

    In ASCII, so that no character of a chat's reaches a terminal.
    """
    # Here, because `precis --help` need not wait for pydantic.
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(found)
    typer.echo(json.dumps(plain, indent=2).replace("\x7f", "\\u007f"))


def console(*, stderr: bool = False) -> Console:
    """A console that writes control characters out; colours and layout stay."""
    made = Console(stderr=stderr)
    made.push_render_hook(_ShowControl())
    return made


class _Shown:
    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._inner, options):
            yield Segment(text if control else shown(text), style, control)


class _ShowControl(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Shown(one) for one in renderables]
