"""Texts that are dear to read for whoever looks for an end that is not there."""

import importlib
import re
from collections.abc import Iterator
from typing import Any

_HTML = "".join(
    f'<div class="row"><a href="/page/{n}?q=1">Item {n}</a> <span>words about {n}, at {n * 3} EUR</span><br></div>\n'
    for n in range(400)
)
_OLD_HTML = "".join(f"<p>About item {n}, <b>{n} EUR\n<li>one <td class=x>two\n" for n in range(400))
_TEMPLATES = "".join(
    f"template <typename T{n}> std::vector<std::pair<T{n}, A>> make{n}(const std::map<int, T{n}>& m);\n"
    for n in range(400)
)

UNITS = {
    "dashes": "-",
    "lines of dashes": "-" * 120 + "\n",
    "tags": "<a>",
    "breaks": "<br>",
    "nested tags": "<a><b>",
    "closing tags": "</a>",
    "half a tag": "<a\n",
    "comments": "<!--",
    "empty elements": "<br/>",
    "details": "<details",
    "folds": '<details type="tool_calls" done="true">',
    "fold attributes": '<details type="reasoning" type="reasoning" ',
    "summaries": "<summary>",
    "folds and summaries": '<details type="reasoning"><summary>',
    "attached files": "<attached_files>",
    "begin": "begin\n",
    "start": "start x\n",
    "mail heads": "From: a\n",
    "two mail heads": "From: a\nTo: b\n",
    "emphasis": "**",
    "open emphasis": "**a ",
    "half emphasis": " **a",
    "abbreviations": "Never a. ",
    "letters": "a. ",
    "decisions": "I decided to use x. ",
    "changes": "use x instead of y. ",
    "line breaks": "\n",
    "blank lines": " \n",
    "blanks": " ",
    "templates": _TEMPLATES,
    "html": _HTML,
    "old html": _OLD_HTML,
    "one word": "a",
    "one number": "1",
    "nested objects": '{"a":',
    "nested arrays": "[",
    "base64": "QUJDREVGSUpL",
    "triple quotes": '"""',
    "quotation marks": '"',
    "one quotation": '"a\n',
    "apostrophes": "'",
    "lists of Python": "['a', ",
    "half a list of Python": "['a\\'",
    "escaped quotation marks": '[\\"',
    "lines of JSON": '{"a": 1}\n',
    "lines of escaped JSON": "{&quot;a&quot;\n",
    "open fences": "```\n[\n",
    "fences of two kinds": "~~~~\n```\n",
    "reprs": "('a', ",
    "escaped quotes": "'\\",
    "code fences": "```a\n",
    "backticks": "`",
    "equals": "=",
    "heads": "\n#",
    "roles": "\nsystem: ",
    "brackets": "\n[",
    "escapes": "&amp;",
    "quoted values": "&quot;a&quot;\n",
    "endless number": "&#" + "1" * 5000 + ";",
    "combining marks": "\u0301\u0323",
    "reversed": "\u202ea",
    "joiners": "\u200d",
    "ideographs": "中",
    "looks alike": "аa",
    "dates": "1 January ",
    "numeric dates": "1-1-",
    "grouped numbers": "1 000 ",
    "dotted numbers": "1.1",
    "paths": "a/",
    "files": "a.",
    "hosts": "a://",
    "mail addresses": "a@",
    "names": "a_",
    "dashed names": "send-",
    "table rules": "-|-",
    "a table": "| a | - |\n|---|---|\n",
    "commas": "a,",
    "pairs": "x=1 ",
    "questions": "Is it x, ok? ",
    "labels": "Rule: ",
    "announced": "Here is the mail: ",
    "statements": "select ;",
    "colours": "\x1b[0",
    "private keys": "-----BEGIN PRIVATE KEY-----",
    "passwords": "password=",
    "tokens": "eyJhbGciOiJIUzI1NiJ9.eyJ",
}

RUNS = (" ", "-", "a", "\n", "1", ";", "=", "a ")
STARTS = ("<", "</a", "# a", "P1", "not ", "```", "[", "said:", "1 ", "thanks ")
PROSE = "The pump in hall 7 was replaced on Tuesday; its report is in the folder, and nobody has read it yet. "


def filled(unit: str, size: int) -> str:
    """`unit` again and again, so many characters."""
    return (unit * (size // len(unit) + 1))[:size]


_MOST_EXAMPLES = 24


def examples(pattern: re.Pattern[str]) -> list[str]:
    """Beginnings of what a pattern matches: whole, and without an end. So a new pattern has units of its own."""
    parser = importlib.import_module("re._parser")
    wholes = dict.fromkeys(_texts(parser.parse(pattern.pattern, pattern.flags)))
    units = [unit for whole in wholes for unit in (whole, whole[:-1], whole[: len(whole) // 2]) if unit]
    step = max(len(units) // _MOST_EXAMPLES, 1)
    return list(dict.fromkeys(units[::step]))


def _texts(parsed: Any) -> Iterator[str]:
    """A text for each of a pattern's outermost alternatives."""
    nodes = list(parsed)
    place = next((at for at, (kind, _) in enumerate(nodes) if _is_choice(kind)), None)
    if place is None:
        yield _text(nodes)
        return
    kind, value = nodes[place]
    inner = value[1] if str(kind) == "BRANCH" else [value[-1]]
    for one in inner:
        for text in _texts(one):
            yield _text(nodes[:place]) + text + _text(nodes[place + 1 :])


def _is_choice(kind: object) -> bool:
    return str(kind) in ("BRANCH", "SUBPATTERN", "ATOMIC_GROUP")


def _text(nodes: Any) -> str:
    """A short text that such a tree matches, or nearly."""
    said = ""
    for kind, value in nodes:
        match str(kind):
            case "LITERAL":
                said += chr(value)
            case "IN":
                said += _member(value)
            case "ANY" | "NOT_LITERAL":
                said += "a"
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                said += _text(value[2]) * min(max(value[0], 1), 200)
            case "SUBPATTERN":
                said += _text(value[3])
            case "ATOMIC_GROUP":
                said += _text(value)
            case "BRANCH":
                said += _text(value[1][0])
            case _:  # a place, a look around, a group again
                pass
    return said


_CATEGORIES = {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1", "CATEGORY_NOT_WORD": "-"}


def _member(members: Any) -> str:
    """A character of a class."""
    kind, value = members[0]
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "RANGE":
            return chr(value[0])
        case "CATEGORY":
            return _CATEGORIES.get(str(value), "a")
    return "a"  # of a class that excludes: most do not exclude letters
