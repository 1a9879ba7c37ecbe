"""Parses the three older stored formats, which fold everything into the text of the answer.

1. `<details type="tool_calls" arguments="…" result="…">` (Open WebUI up to 0.7),
2. the same with the result in the body, behind `<summary>` (0.8 to 0.9),
3. a bare JSON value (`bare`).

`<details type="reasoning">` and `<details type="code_interpreter">` stand beside them.

The input is the text of an answer. The output are typed items in the same order, or the same text
with other values in place of the tools' ones.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from service.text.escapes import unescape_html
from service.transcript import bare
from service.transcript.bare import ToolValue
from service.transcript.items import CodeRun, Item, Text, ToolCall, ToolResult

_DETAILS = re.compile(r"<details\b([^<>]*+)>")
# Open WebUI's own types. A model may write `<details>` of another kind for its reader.
_OURS = re.compile(r'(?<![\w-])type="(tool_calls|reasoning|code_interpreter)"')
_END = "</details>"
_ATTRIBUTE = re.compile(r'(?<![\w-])([\w-]++)="([^"]*+)"')
# Attributes that Open WebUI sets itself. All others may hold a tool's words.
_ABOUT_A_FOLD = {"type", "id", "name", "done", "duration"}
_FENCE = re.compile(r"```[^\n`]*+\n(.*?)\n?```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Fold:
    """The places of a `<details>` of a known type, its attributes and its body."""

    type: str
    begin: int
    attributes: tuple[int, int]
    body: tuple[int, int]
    end: int


def _find_folds(content: str) -> Iterator[_Fold]:
    """Yields the folds of a text, in order. Each ends with the first `</details>` behind it."""
    last = content.rfind(_END)
    position = 0
    for tag in _DETAILS.finditer(content):
        ours = _OURS.search(tag[1])
        if tag.start() < position or not ours:
            continue
        if tag.end() > last:  # Nothing closes it or any fold behind it.
            return
        end = content.index(_END, tag.end())
        position = end + len(_END)
        yield _Fold(ours[1], tag.start(), tag.span(1), (tag.end(), end), position)


def _find_summary(content: str, start: int, end: int) -> tuple[int, int] | None:
    """The places of the `<summary>` between two places, with the blanks around it."""
    begin = content.find("<summary>", start, end)
    close = content.find("</summary>", begin, end) if begin >= 0 else -1
    if close < 0:
        return None
    before = content[start:begin].rstrip()
    after = content[close + len("</summary>") : end].lstrip()
    return start + len(before), end - len(after)


def parse_content(content: str) -> list[Item]:
    """The typed items of an answer's text. A text without any fold is one `Text`."""
    items: list[Item] = []
    position = 0
    for fold in _find_folds(content):
        items += _parse_plain_text(content[position : fold.begin])
        attributes = dict(_ATTRIBUTE.findall(content, *fold.attributes))
        items += _parse_fold(fold, attributes, content[slice(*fold.body)])
        position = fold.end
    return items + _parse_plain_text(content[position:])


def rewrite_tool_values(content: str, rewrite: Callable[[str], str]) -> str:
    """The text with each value of a tool (arguments, results, code) passed through `rewrite`.

    A value that `rewrite` leaves alone stays byte for byte. Another value is escaped like the old
    one.
    """
    out: list[str] = []
    position = 0
    for value in _find_tool_values(content):
        new = rewrite(value.text)
        if new != value.text:
            out += [content[position : value.begin], value.wrapped(new)]
            position = value.end
    if not out:
        return content
    return "".join([*out, content[position:]])


def _find_tool_values(content: str) -> Iterator[ToolValue]:
    """Yields the values of tools in an answer's text, in order."""
    position = 0
    for fold in _find_folds(content):
        yield from _find_bare_values(content, position, fold.begin)
        yield from _find_fold_values(content, fold)
        position = fold.end
    yield from _find_bare_values(content, position, len(content))


def _find_fold_values(content: str, fold: _Fold) -> Iterator[ToolValue]:
    """Yields the values in a fold's attributes, and around its summary."""
    if fold.type == "reasoning":  # the model's own words
        return
    for attribute in _ATTRIBUTE.finditer(content, *fold.attributes):
        if attribute[1] not in _ABOUT_A_FOLD:
            yield bare.unescape_value(content, *attribute.span(2))
    start, end = fold.body
    summary = _find_summary(content, start, end)
    if summary:
        yield bare.unescape_value(content, start, summary[0])
        start = summary[1]
    yield bare.unescape_value(content, start, end)


def _find_bare_values(content: str, start: int, end: int) -> Iterator[ToolValue]:
    """Yields the bare values between two places."""
    for value in bare.find_values(content[start:end]):
        yield replace(value, begin=start + value.begin, end=start + value.end)


def _parse_fold(fold: _Fold, attributes: dict[str, str], body: str) -> list[Item]:
    """The items that a fold means."""
    summary = _find_summary(body, 0, len(body))
    if summary:
        body = body[: summary[0]] + body[summary[1] :]
    match fold.type:
        case "reasoning":
            return []
        case "code_interpreter":
            return [_parse_code_run(attributes, body)]
        case _:
            return _parse_call(attributes, body, fold.begin)


def _parse_code_run(attributes: dict[str, str], body: str) -> CodeRun:
    fenced = _FENCE.search(body)
    code = unescape_html(fenced[1] if fenced else body).strip()
    return CodeRun(code, _find_printed(_parse_value(attributes.get("output", ""))))


def _parse_call(attributes: dict[str, str], body: str, position: int) -> list[Item]:
    # A call needs an id, even if none is stored.
    call_id = attributes.get("id") or f"fold-{position}"
    call = ToolCall(
        call_id,
        unescape_html(attributes.get("name", "")),
        _parse_value(attributes.get("arguments", "")) or "{}",
        finished=attributes.get("done") != "false",
    )
    result = attributes.get("result") or body.strip()  # the format up to 0.7, or the one since
    return [call, ToolResult(call_id, _parse_value(result))]


def _parse_plain_text(text: str) -> list[Item]:
    """The items of a text without folds."""
    items: list[Item] = []
    position = 0
    for value in bare.find_values(text):
        items += _make_texts(text[position : value.begin])
        # Neither the tool nor its arguments are known.
        call_id = f"bare-{value.begin}"
        items += [ToolCall(call_id, "tool", "{}"), ToolResult(call_id, value.text)]
        position = value.end
    return items + _make_texts(text[position:])


def _make_texts(text: str) -> list[Item]:
    return [Text(text.strip())] if text.strip() else []


def _parse_value(escaped: str) -> str:
    """The value in an attribute or a body. A JSON string becomes its text.

    Open WebUI stores `html.escape(json.dumps(value))`, sometimes escaped twice.
    """
    text = unescape_html(escaped)
    for _ in range(2):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            if "&quot;" not in text and "&amp;" not in text:
                break
            text = unescape_html(text)
            continue
        if not isinstance(value, str):
            break
        text = value
    return text


def _find_printed(value: str) -> str:
    """The output of a code run: its stdout, or its result, or the text as it stands."""
    try:
        output = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if not isinstance(output, dict):
        return value
    return str(output.get("stdout") or output.get("result") or "")
