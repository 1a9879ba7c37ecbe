"""The three older stored formats: everything folded into the text of the answer.

1. `<details type="tool_calls" arguments="…" result="…">` (Open WebUI up to 0.7),
2. the same with the result in the body, behind `<summary>` (0.8 to 0.9),
3. a bare JSON value (`bare`).

`<details type="reasoning">` and `<details type="code_interpreter">` stand beside them.

In: the text of an answer. Out: typed items in the same order, or the same text with what came from
tools changed.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from service.text.escapes import unescape_html
from service.transcript import bare
from service.transcript.bare import ToolValue
from service.transcript.items import CodeRun, Item, Reasoning, Text, ToolCall, ToolResult

_DETAILS = re.compile(r"<details\b([^<>]*+)>")
# Open WebUI's own types: a model writes `<details>` too, for what its reader may unfold.
_OURS = re.compile(r'\btype="(?:tool_calls|reasoning|code_interpreter)"')
_END = "</details>"
_ATTRIBUTE = re.compile(r'(?<![\w-])([\w-]++)="([^"]*+)"')
# Attributes that Open WebUI sets itself. All others may hold what a tool said.
_ABOUT_A_FOLD = {"type", "id", "name", "done", "duration"}
_FENCE = re.compile(r"```[^\n`]*+\n(.*?)\n?```", re.DOTALL)
_QUOTE = re.compile(r"^[^\S\n]*+(?:>|&gt;) ?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Fold:
    """The places of a `<details>` of a known type, of its attributes and of its body."""

    begin: int
    attributes: tuple[int, int]
    body: tuple[int, int]
    end: int


def _folds(content: str) -> Iterator[_Fold]:
    """The folds of a text, in order: each ends with the first `</details>` behind it."""
    last = content.rfind(_END)
    position = 0
    for tag in _DETAILS.finditer(content):
        if tag.start() < position or not _OURS.search(tag[1]):
            continue
        if tag.end() > last:  # nothing closes it, nor any behind it: no further search
            return
        end = content.index(_END, tag.end())
        position = end + len(_END)
        yield _Fold(tag.start(), tag.span(1), (tag.end(), end), position)


def _summary(content: str, start: int, end: int) -> tuple[int, int] | None:
    """Where the `<summary>` between two places begins and ends, with the blanks around it."""
    begin = content.find("<summary>", start, end)
    close = content.find("</summary>", begin, end) if begin >= 0 else -1
    if close < 0:
        return None
    before = content[start:begin].rstrip()
    after = content[close + len("</summary>") : end].lstrip()
    return start + len(before), end - len(after)


def items_of(content: str) -> list[Item]:
    """Typed items of an answer's text; text without any fold is one `Text`."""
    items: list[Item] = []
    position = 0
    for fold in _folds(content):
        items += _plain(content[position : fold.begin])
        attributes = dict(_ATTRIBUTE.findall(content, *fold.attributes))
        items += _folded(attributes, content[slice(*fold.body)], position=fold.begin)
        position = fold.end
    return items + _plain(content[position:])


def rewritten(content: str, rewrite: Callable[[str], str]) -> str:
    """The text with what came from tools passed through `rewrite`: arguments, results, code.

    Where `rewrite` changes nothing the text stays byte for byte; else what was wrapped around the
    value is put around the new one.
    """
    out: list[str] = []
    position = 0
    for value in _values(content):
        new = rewrite(value.text)
        if new != value.text:
            out += [content[position : value.begin], value.wrapped(new)]
            position = value.end
    if not out:
        return content
    return "".join([*out, content[position:]])


def _values(content: str) -> Iterator[ToolValue]:
    """The values of tools in an answer's text, in order."""
    position = 0
    for fold in _folds(content):
        yield from _bare(content, position, fold.begin)
        yield from _of_fold(content, fold)
        position = fold.end
    yield from _bare(content, position, len(content))


def _of_fold(content: str, fold: _Fold) -> Iterator[ToolValue]:
    """The values in a fold: in its attributes, and around its summary."""
    if 'type="reasoning"' in content[slice(*fold.attributes)]:  # the model's own words
        return
    for attribute in _ATTRIBUTE.finditer(content, *fold.attributes):
        if attribute[1] not in _ABOUT_A_FOLD:
            yield bare.escaped(content, *attribute.span(2))
    start, end = fold.body
    summary = _summary(content, start, end)
    if summary:
        yield bare.escaped(content, start, summary[0])
        start = summary[1]
    yield bare.escaped(content, start, end)


def _bare(content: str, start: int, end: int) -> Iterator[ToolValue]:
    """The bare values between two places."""
    for value in bare.found(content[start:end]):
        yield replace(value, begin=start + value.begin, end=start + value.end)


def _folded(attributes: dict[str, str], body: str, position: int) -> list[Item]:
    """The items that the fold at `position` of a text stands for."""
    summary = _summary(body, 0, len(body))
    if summary:
        body = body[: summary[0]] + body[summary[1] :]
    match attributes["type"]:
        case "reasoning":
            return [Reasoning(_QUOTE.sub("", unescape_html(body)).strip())]
        case "code_interpreter":
            return [_code_run(attributes, body)]
        case _:
            return _called(attributes, body, position)


def _code_run(attributes: dict[str, str], body: str) -> CodeRun:
    fenced = _FENCE.search(body)
    code = unescape_html(fenced[1] if fenced else body).strip()
    return CodeRun(code, _printed(_value(attributes.get("output", ""))))


def _called(attributes: dict[str, str], body: str, position: int) -> list[Item]:
    # The folds of one message need ids of their own when the stored ones are missing.
    call_id = attributes.get("id") or f"fold-{position}"
    call = ToolCall(
        call_id,
        unescape_html(attributes.get("name", "")),
        _value(attributes.get("arguments", "")) or "{}",
        finished=attributes.get("done") != "false",
    )
    result = attributes.get("result") or body.strip()  # the format up to 0.7, or the one since
    return [call, ToolResult(call_id, _value(result))]


def _plain(text: str) -> list[Item]:
    """The items of a text without folds."""
    items: list[Item] = []
    position = 0
    for value in bare.found(text):
        items += _visible(text[position : value.begin])
        # Nothing tells which tool it was, or what it was asked.
        call_id = f"bare-{value.begin}"
        items += [ToolCall(call_id, "tool", "{}"), ToolResult(call_id, value.text)]
        position = value.end
    return items + _visible(text[position:])


def _visible(text: str) -> list[Item]:
    return [Text(text.strip())] if text.strip() else []


def _value(escaped: str) -> str:
    """The value in an attribute or a body; a JSON string becomes its text.

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


def _printed(value: str) -> str:
    """What a code run printed: its stdout, else its result, else the text as it stands."""
    try:
        output = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if not isinstance(output, dict):
        return value
    return str(output.get("stdout") or output.get("result") or "")
