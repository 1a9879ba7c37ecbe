"""The three older stored formats: everything folded into the text of the answer.

1. `<details type="tool_calls" arguments="…" result="…">` (Open WebUI up to 0.7),
2. the same with the result in the body, behind `<summary>` (0.8 to 0.9),
3. a bare, HTML-escaped JSON value on lines of its own, left behind by pipes and by old tool servers.

`<details type="reasoning">` and `<details type="code_interpreter">` stand beside them. In: the text of an answer.
Out: typed items in the same order.
"""

import json
import re
from html import unescape

from service.transcript.items import CodeRun, Item, Reasoning, Text, ToolCall, ToolResult

_DETAILS = re.compile(
    r'<details\b(?P<attributes>[^<>]*\btype="(?:tool_calls|reasoning|code_interpreter)"[^<>]*)>(?P<body>.*?)</details>',
    re.DOTALL,
)
_END = "</details>"
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_SUMMARY = re.compile(r"\s*<summary>.*?</summary>\s*", re.DOTALL)
_FENCE = re.compile(r"```[^\n]*\n(.*?)\n?```", re.DOTALL)
_QUOTE = re.compile(r"^\s*(?:>|&gt;) ?", re.MULTILINE)
# A paragraph, or one line, that could be an escaped JSON value.
_BARE = re.compile(r"^[ \t]*(?:[\[{]|&quot;)[^\n]*(?:\n(?![ \t]*(?:\n|\Z))[^\n]*)*", re.MULTILINE)


def items_of(content: str) -> list[Item]:
    """Typed items of an answer's text; text without any fold is one `Text`."""
    items: list[Item] = []
    position = 0
    # Looking no further than the last end keeps a text of many beginnings linear.
    for match in _DETAILS.finditer(content, 0, content.rfind(_END) + len(_END)):
        items += _plain(content[position : match.start()])
        attributes = dict(_ATTRIBUTE.findall(match["attributes"]))
        items += _folded(attributes, match["body"], position=match.start())
        position = match.end()
    return items + _plain(content[position:])


def _folded(attributes: dict[str, str], body: str, position: int) -> list[Item]:
    body = _SUMMARY.sub("", body, count=1)
    match attributes["type"]:
        case "reasoning":
            return [Reasoning(_QUOTE.sub("", unescape(body)).strip())]
        case "code_interpreter":
            fenced = _FENCE.search(body)
            printed = _value(attributes.get("output", ""))
            return [CodeRun(unescape(fenced[1] if fenced else body).strip(), _printed(printed))]
    # The folds of one message need ids of their own when the stored ones are missing.
    call_id = attributes.get("id") or f"fold-{position}"
    call = ToolCall(
        call_id,
        unescape(attributes.get("name", "")),
        _value(attributes.get("arguments", "")) or "{}",
        finished=attributes.get("done") != "false",
    )
    return [call, ToolResult(call_id, _value(attributes.get("result") or body.strip()))]


def _plain(text: str) -> list[Item]:
    items: list[Item] = []
    position = 0
    for match in _BARE.finditer(text):
        if "&quot;" not in match[0]:
            continue
        escaped = next((part for part in (match[0], match[0].split("\n", 1)[0]) if _is_json(unescape(part))), None)
        if escaped is None:
            continue
        items += _visible(text[position : match.start()])
        call_id = f"bare-{match.start()}"
        items += [ToolCall(call_id, "tool", "{}"), ToolResult(call_id, unescape(escaped).strip())]
        position = match.start() + len(escaped)
    return items + _visible(text[position:])


def _visible(text: str) -> list[Item]:
    return [Text(text.strip())] if text.strip() else []


def _value(escaped: str) -> str:
    """Open WebUI stores `html.escape(json.dumps(value))`, sometimes escaped twice; a JSON string becomes its text."""
    text = unescape(escaped)
    for _ in range(2):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            if "&quot;" not in text and "&amp;" not in text:
                break
            text = unescape(text)
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
    return str(output.get("stdout") or output.get("result") or "") if isinstance(output, dict) else value


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list | str)
    except (ValueError, RecursionError):
        return False
