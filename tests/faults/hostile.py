"""Texts that have stopped a service, each repeated to any length. Each is ordinary or looks like it."""

import json


def _nested(size: int) -> str:
    depth = min(size // 12, 20_000)
    return '{"a": [' * depth + "1" + "]}" * depth


UNITS = {
    "dashes": "-",
    "tags": "<a>",
    "line break tags": "<br>",
    "nested tags": "<a><b>",
    "comments that never end": "<!--",
    "details that never end": "<details",
    "summaries": "<summary>",
    "attached files": "<attached_files>",
    "lines of begin": "begin\n",
    "starts": "start x\n",
    "mail heads": "From: a\n",
    "bold": "**",
    "constraints": "Never a. ",
    "decisions": "I decided to use x. ",
    "replacements": "use x instead of y. ",
    "line breaks": "\n",
    "lines of dashes": "-" * 120 + "\n",
    "templates": "std::map<std::string, std::vector<std::pair<int, T>>> x = f<A, B<C>>(y);\n",
    "old HTML": "<table border=0><tr><td><font size=2><b>Price<td>12.50<p><li>Valve\n",
    "one word": "a",
    "base64": "QmFzZTY0IGlzIG5vdCB0ZXh0",
}


def texts(size: int) -> dict[str, str]:
    """Each unit, repeated to about `size` characters, and JSON that nests."""
    made = {name: unit * (size // len(unit)) for name, unit in UNITS.items()}
    return made | {"nested JSON": _nested(size), "arguments": json.dumps({"q": "<a>" * (size // 3)})}
