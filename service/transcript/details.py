"""The three older stored formats: everything folded into the text of the answer.

1. `<details type="tool_calls" arguments="…" result="…">` (Open WebUI up to 0.7),
2. the same with the result in the body, behind `<summary>` (0.8 to 0.9),
3. a bare, HTML-escaped JSON value on lines of its own, left behind by pipes and by old tool servers.

`<details type="reasoning">` and `<details type="code_interpreter">` stand beside them. In: the text of an answer.
Out: typed items in the same order, or the same text with what came from tools changed.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

from service.escapes import unescaped
from service.transcript.items import CodeRun, Item, Reasoning, Text, ToolCall, ToolResult

_DETAILS = re.compile(r"<details\b([^<>]*+)>")
_OURS = re.compile(r'\btype="(?:tool_calls|reasoning|code_interpreter)"')
_END = "</details>"
_ATTRIBUTE = re.compile(r'(?<![\w-])([\w-]++)="([^"]*+)"')
_ABOUT_A_FOLD = {"type", "id", "name", "done", "duration"}
_FENCE = re.compile(r"```[^\n`]*+\n(.*?)\n?```", re.DOTALL)
_QUOTE = re.compile(r"^[^\S\n]*+(?:>|&gt;) ?", re.MULTILINE)
# A paragraph, or one line, that could be an escaped JSON value.
_BARE = re.compile(r"^[ \t]*(?:[\[{]|&(?:amp;)?quot;)[^\n]*(?:\n(?![ \t]*(?:\n|\Z))[^\n]*)*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Fold:
    """Where a `<details>` of a kind that we know stands, and where its attributes and its body do."""

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
        if tag.end() > last:
            return
        end = content.index(_END, tag.end())
        position = end + len(_END)
        yield _Fold(tag.start(), tag.span(1), (tag.end(), end), position)


def _summary(content: str, start: int, end: int) -> tuple[int, int] | None:
    """Where the `<summary>` between two places stands, with the blanks around it."""
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
    """The text with each argument and result of a tool, and each run of code, passed through `rewrite`.

    Where `rewrite` changes nothing the text stays byte for byte; else the value is escaped again as often as it was.
    """
    out: list[str] = []
    position = 0
    for start, end in _values(content):
        text, depth = _without_escapes(content[start:end])
        if (new := rewrite(text)) != text:
            for _ in range(depth):
                new = escape(new)
            out += [content[position:start], new]
            position = end
    return "".join([*out, content[position:]]) if out else content


def _values(content: str) -> Iterator[tuple[int, int]]:
    """Where the values of tools stand in an answer's text, in order, each with its escapes."""
    position = 0
    for fold in _folds(content):
        yield from _bare(content, position, fold.begin)
        position = fold.end
        if 'type="reasoning"' in content[slice(*fold.attributes)]:
            continue
        for one in _ATTRIBUTE.finditer(content, *fold.attributes):
            if one[1] not in _ABOUT_A_FOLD:
                yield one.span(2)
        start, end = fold.body
        if summary := _summary(content, start, end):
            yield start, summary[0]
            start = summary[1]
        yield start, end
    yield from _bare(content, position, len(content))


def _folded(attributes: dict[str, str], body: str, position: int) -> list[Item]:
    if summary := _summary(body, 0, len(body)):
        body = body[: summary[0]] + body[summary[1] :]
    match attributes["type"]:
        case "reasoning":
            return [Reasoning(_QUOTE.sub("", unescaped(body)).strip())]
        case "code_interpreter":
            fenced = _FENCE.search(body)
            printed = _value(attributes.get("output", ""))
            return [CodeRun(unescaped(fenced[1] if fenced else body).strip(), _printed(printed))]
    # The folds of one message need ids of their own when the stored ones are missing.
    call_id = attributes.get("id") or f"fold-{position}"
    call = ToolCall(
        call_id,
        unescaped(attributes.get("name", "")),
        _value(attributes.get("arguments", "")) or "{}",
        finished=attributes.get("done") != "false",
    )
    return [call, ToolResult(call_id, _value(attributes.get("result") or body.strip()))]


def _plain(text: str) -> list[Item]:
    items: list[Item] = []
    position = 0
    for start, end in _bare(text, 0, len(text)):
        items += _visible(text[position:start])
        call_id = f"bare-{start}"
        items += [ToolCall(call_id, "tool", "{}"), ToolResult(call_id, _without_escapes(text[start:end])[0].strip())]
        position = end
    return items + _visible(text[position:])


def _bare(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where bare values stand between two places: a paragraph, or else its first line."""
    for match in _BARE.finditer(content[start:end]):
        if "quot;" not in match[0]:
            continue
        for part in (match[0], match[0].split("\n", 1)[0]):
            if _is_json(_without_escapes(part)[0]):
                yield start + match.start(), start + match.start() + len(part)
                break


def _visible(text: str) -> list[Item]:
    return [Text(text.strip())] if text.strip() else []


def _value(escaped: str) -> str:
    """Open WebUI stores `html.escape(json.dumps(value))`, sometimes escaped twice; a JSON string becomes its text."""
    text = unescaped(escaped)
    for _ in range(2):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            if "&quot;" not in text and "&amp;" not in text:
                break
            text = unescaped(text)
            continue
        if not isinstance(value, str):
            break
        text = value
    return text


def _without_escapes(escaped: str) -> tuple[str, int]:
    """A value without its escapes, and how often it was escaped: until it is JSON; once, if it never is."""
    text = escaped
    for depth in (1, 2, 3):
        text = unescaped(text)
        if _is_json(text):
            return text, depth
    return unescaped(escaped), 1


def _printed(value: str) -> str:
    """What a code run printed: its stdout, else its result, else the text as it stands."""
    try:
        output = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return str(output.get("stdout") or output.get("result") or "") if isinstance(output, dict) else value


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list | str)
    except (ValueError, RecursionError):
        return False
