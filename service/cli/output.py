"""What commands print: no control character of others' text reaches a terminal.

An id, a model's name, an error or a summary may carry escape sequences, which a terminal would
obey, or what reads like markup of ours.
"""

import re
from typing import Final

from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

# C0 but tabs and line ends, DEL, C1, the line ends of Unicode, and what turns the direction of
# text.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_ID: Final = 36  # characters of a chat id
_WIDE: Final = 110  # columns of a terminal


def shown(text: str) -> str:
    r"""The text with every control character written out, as `\x1b`; tabs and line ends stay."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def add_row(table: Table, *cells: str) -> None:
    """A row of texts that are not ours: nothing in them is markup, and nothing is cut off."""
    table.add_row(*(Text(cell, overflow="fold") for cell in cells))


def id_column(width: int) -> Column:
    """The column of chat ids: on one line where the others fit beside it, and folded elsewhere."""
    return Column("chat", overflow="fold", min_width=_ID if width >= _WIDE else None)


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
