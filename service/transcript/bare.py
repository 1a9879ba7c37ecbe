"""Bare results of tools in the text of an answer, left there by pipes and old tool servers.

A JSON value that is a paragraph of its own is data, in any of the forms in which it was seen: as
it is, as HTML, with backslashes before its quotes, as a JSON string, or as Python shows it. So is
one on lines of its own when it is HTML, which nobody writes manually. What stands in a code fence,
or is indented like code, is the assistant's own and stays text.

In: an answer's text without folds. Out: where the values stand and what they say. Linear in the
text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from html import escape
from typing import Any

from service.text.escapes import unescaped

_DEEPEST = 4  # layers around one value
# A line that opens a code fence, or that a value may begin.
_BEGINS = re.compile(
    r"^([ \t]*+)(?:(`{3,}+)[^`\n]*+$|(~{3,}+)|[\[{\"]|&(?:amp;)?(?:quot|#34|#x27|#39);)",
    re.MULTILINE,
)
_CLOSES = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+$", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n(?=[ \t]*+(?:\n|\Z|```|~~~))")
_CODE_INDENT = 4  # blanks, as in Markdown
# A quotation mark, an escape, or what is between them.
_PYTHON_PIECE = re.compile(r"['\"]|\\.?|[^'\"\\]++", re.DOTALL)
_PYTHON_PLAIN = re.compile(r"(?:[\[\]{}:,\s0-9.eE+-]++|True|False|None)*+")
_PYTHON_CONSTANT = re.compile(r"True|False|None")
_PYTHON_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})"
    r"|([nrt'\"\\]))"
)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_SIGNS = {"n": "\n", "r": "\r", "t": "\t"}  # any other escaped character is itself
# Half of a character: no encoder takes it, so what has one is not read as a value.
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NOT_JSON = object()  # because `null` is JSON


class Layer(Enum):
    """What is wrapped around a value."""

    HTML = auto()
    BACKSLASHES = auto()
    STRING = auto()
    PYTHON = auto()


@dataclass(frozen=True, slots=True)
class ToolValue:
    """A value of a tool in a text: where it stands, what it says, and what is wrapped around it."""

    begin: int
    end: int
    text: str
    layers: tuple[Layer, ...] = ()

    def wrapped(self, text: str) -> str:
        """Another text with the layers of this value, so that it is read back as itself."""
        for layer in reversed(self.layers):
            match layer:
                case Layer.HTML:
                    text = escape(text)
                case Layer.BACKSLASHES:
                    text = json.dumps(text, ensure_ascii=False)[1:-1]
                case Layer.STRING:
                    text = json.dumps(text, ensure_ascii=False)
                case Layer.PYTHON:
                    pass  # JSON is read from there as well
        return text


def found(text: str) -> Iterator[ToolValue]:
    """The bare values of a text, in order."""
    position = 0
    while line := _BEGINS.search(text, position):
        fence = line[2] or line[3]
        if fence:
            position = _fence_end(text, line.end(), fence)
            continue
        end = _paragraph_end(text, line.end())
        yield from _of_paragraph(text, line.start(), end, _may_be_json(text, line))
        position = end


def escaped(text: str, begin: int, end: int) -> ToolValue:
    """The value between two places, unescaped until it is JSON; if it never is, unescaped once."""
    value = text[begin:end]
    for depth in (1, 2, 3):
        value = unescaped(value)
        if isinstance(_json(value), dict | list | str):
            return ToolValue(begin, end, value, (Layer.HTML,) * depth)
    return ToolValue(begin, end, unescaped(text[begin:end]), (Layer.HTML,))


def _fence_end(text: str, begin: int, fence: str) -> int:
    """Where a code fence ends; one that nothing closes ends with the text."""
    closing = (line.end() for line in _CLOSES.finditer(text, begin) if line[1].startswith(fence))
    return next(closing, len(text))


def _paragraph_end(text: str, begin: int) -> int:
    end = _PARAGRAPH_END.search(text, begin)
    return end.start() if end else len(text)


def _may_be_json(text: str, line: re.Match[str]) -> bool:
    """Whether a line that `_BEGINS` found is the first of a paragraph, and not indented as code."""
    indented = "\t" in line[1] or len(line[1]) >= _CODE_INDENT
    return not indented and _begins_paragraph(text, line.start())


def _begins_paragraph(text: str, line: int) -> bool:
    """Whether the line above is blank, or there is none."""
    above = text.rfind("\n", 0, max(line - 1, 0)) + 1
    return not text[above:line].strip()


def _of_paragraph(text: str, begin: int, end: int, first: bool) -> Iterator[ToolValue]:
    """The value that a paragraph is, or else those that its first lines are.

    Args:
        text: the whole text.
        begin: where the first line that may be a value begins.
        end: where the paragraph ends.
        first: whether that line is the paragraph's first one.
    """
    whole = _value(text, begin, end, first)
    if whole:
        yield whole
        return
    while begin < end:
        line_end = text.find("\n", begin, end)
        line_end = end if line_end < 0 else line_end
        value = _value(text, begin, line_end, first)
        if value is None:
            return
        yield value
        begin = line_end + 1


def _value(text: str, begin: int, end: int, first: bool) -> ToolValue | None:
    """The value between two places, if there is one; below other text, only in HTML."""
    inner = text[begin:end].strip()
    if not first and not _is_html(inner):
        return None
    layers: list[Layer] = []
    while len(layers) < _DEEPEST:
        parsed = _json(inner)
        if _is_result(parsed, layers):
            return ToolValue(begin, end, inner, tuple(layers))
        peeled = _peeled(inner, parsed)
        if peeled is None:
            return None
        inner, layer = peeled
        if _SURROGATE.search(inner):
            return None
        layers.append(layer)
    return None


def _is_result(parsed: object, layers: list[Layer]) -> bool:
    """Whether a tool gave this JSON. What was HTML may be anything: nobody writes it manually."""
    was_html = layers[:1] == [Layer.HTML]
    return _is_data(parsed) or (was_html and isinstance(parsed, list | dict | str))


def _peeled(text: str, parsed: object) -> tuple[str, Layer] | None:
    """A text without its outermost layer, and which it was; `parsed` is what it says as JSON."""
    if isinstance(parsed, str):
        return parsed, Layer.STRING
    if parsed is not _NOT_JSON:
        return None
    if _is_html(text):
        return unescaped(text), Layer.HTML
    if not text.startswith(("[", "{")):
        return None
    if '\\"' in text:
        inner = _json(f'"{text}"', strict=False)
        if isinstance(inner, str):
            return inner, Layer.BACKSLASHES
    shown = _from_python(text) if "'" in text else None
    return None if shown is None else (shown, Layer.PYTHON)


def _from_python(text: str) -> str | None:
    """Python's repr of lists, dictionaries, texts and numbers as JSON; None for anything else."""
    out: list[str] = []
    quoted: list[str] = []
    quote = ""
    for match in _PYTHON_PIECE.finditer(text):
        piece = match[0]
        if quote and piece == quote:
            text_inside = _PYTHON_ESCAPE.sub(_character, "".join(quoted))
            out.append(json.dumps(text_inside, ensure_ascii=False))
            quoted, quote = [], ""
        elif quote:
            quoted.append(piece)
        elif piece in ("'", '"'):
            quote = piece
        elif _PYTHON_PLAIN.fullmatch(piece):
            out.append(_PYTHON_CONSTANT.sub(lambda one: _CONSTANTS[one[0]], piece))
        else:
            return None
    return None if quote else "".join(out)


def _character(written: re.Match[str]) -> str:
    code = written[1] or written[2] or written[3]
    return chr(int(code, 16)) if code else _SIGNS.get(written[4], written[4])


def _is_html(text: str) -> bool:
    return "quot;" in text or "&#" in text


def _is_data(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a value says of itself that it is data: `[1]` may be a footnote, `{}` anything."""
    if isinstance(value, list):
        return any(isinstance(one, dict) and one for one in value)
    return isinstance(value, dict) and bool(value)


def _json(text: str, *, strict: bool = True) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return _NOT_JSON
