"""Finds bare results of tools in the text of an answer, where pipes and old tool servers put them.

A JSON value that is a paragraph of its own is data, also when it is escaped as HTML. Any other
JSON, such as one in a code fence, indented like code, or beside words, is the assistant's own text.

The input is an answer's text without folds, the output the places and texts of the values. The work
is linear in the text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from service.text.escapes import unescape_html

_MOST_ESCAPES = 3  # of a value in a fold; old versions of Open WebUI escaped some of them twice
# A line that opens a code fence, or that a value may begin.
_BEGINS = re.compile(
    r"^([ \t]*+)(?:(`{3,}+)[^`\n]*+$|(~{3,}+)|[\[{\"]|&(?:quot|#34|#x27|#39);)",
    re.MULTILINE,
)
_CLOSES = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+$", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n(?=[ \t]*+(?:\n|\Z|```|~~~))")
_CODE_INDENT = 4  # blanks, as in Markdown
_NOT_JSON = object()  # because `null` is JSON


@dataclass(frozen=True, slots=True)
class ToolValue:
    """A value of a tool in a text."""

    #: Places in the text.
    begin: int
    end: int
    #: The unescaped value.
    text: str
    #: How many times it was escaped.
    escapes: int = 0

    def wrapped(self, text: str) -> str:
        """Another text, escaped as this value was, so that it is read back as itself."""
        for _ in range(self.escapes):
            text = escape(text)
        return text


def find_values(text: str) -> Iterator[ToolValue]:
    """Yields the bare values of a text, in order."""
    position = 0
    while line := _BEGINS.search(text, position):
        fence = line[2] or line[3]
        if fence:
            position = _find_fence_end(text, line.end(), fence)
            continue
        begin, end = line.start(), _find_paragraph_end(text, line.end())
        is_code = "\t" in line[1] or len(line[1]) >= _CODE_INDENT
        if not is_code and _begins_paragraph(text, begin):
            value = _read_value(text, begin, end)
            if value:
                yield value
        position = end


def unescape_value(text: str, begin: int, end: int) -> ToolValue:
    """The value between two places, unescaped until it is JSON. Other text is unescaped once."""
    value = text[begin:end]
    for escapes in range(1, _MOST_ESCAPES + 1):
        value = unescape_html(value)
        if isinstance(_parse_json(value), dict | list | str):
            return ToolValue(begin, end, value, escapes)
    return ToolValue(begin, end, unescape_html(text[begin:end]), 1)


def _find_fence_end(text: str, begin: int, fence: str) -> int:
    """The end of a code fence. A fence that nothing closes ends with the text."""
    for line in _CLOSES.finditer(text, begin):
        if line[1].startswith(fence):
            return line.end()
    return len(text)


def _find_paragraph_end(text: str, begin: int) -> int:
    end = _PARAGRAPH_END.search(text, begin)
    return end.start() if end else len(text)


def _begins_paragraph(text: str, line: int) -> bool:
    """Whether the line above is blank, or there is none."""
    above = text.rfind("\n", 0, max(line - 1, 0)) + 1
    return not text[above:line].strip()


def _read_value(text: str, begin: int, end: int) -> ToolValue | None:
    """The value that the paragraph between two places is; None if it is text."""
    paragraph = text[begin:end].strip()
    parsed = _parse_json(paragraph)
    if parsed is not _NOT_JSON:
        return ToolValue(begin, end, paragraph) if _is_data(parsed) else None
    unescaped = unescape_html(paragraph)
    # Nobody escapes a value by hand, so an escaped one may be any JSON.
    if isinstance(_parse_json(unescaped), list | dict | str):
        return ToolValue(begin, end, unescaped, escapes=1)
    return None


def _is_data(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a value is surely data. `[1]` may be a footnote, and `{}` anything."""
    if isinstance(value, list):
        return any(isinstance(one, dict) and one for one in value)
    return isinstance(value, dict) and bool(value)


def _parse_json(text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOT_JSON
