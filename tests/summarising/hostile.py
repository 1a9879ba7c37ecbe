"""Texts that are dear to read for whoever looks for an end that is not there."""

_HTML = "".join(
    f'<div class="row"><a href="/page/{n}?q=1">Item {n}</a> <span>words about {n}, at {n * 3} EUR</span><br></div>\n'
    for n in range(400)
)

UNITS = {
    "dashes": "-",
    "lines of dashes": "-" * 120 + "\n",
    "tags": "<a>",
    "nested tags": "<a><b>",
    "half a tag": "<a\n",
    "comments": "<!--",
    "details": "<details",
    "folds": '<details type="tool_calls" done="true">',
    "fold attributes": '<details type="reasoning" type="reasoning" ',
    "summaries": "<summary>",
    "folds and summaries": '<details type="reasoning"><summary>',
    "attached files": "<attached_files>",
    "emphasis": "**",
    "open emphasis": "**a ",
    "half emphasis": " **a",
    "abbreviations": "Never a. ",
    "line breaks": "\n",
    "blank lines": " \n",
    "blanks": " ",
    "html": _HTML,
    "one word": "a",
    "one number": "1",
    "nested objects": '{"a":',
    "nested arrays": "[",
    "base64": "QUJDREVGSUpL",
    "triple quotes": '"""',
    "quotation marks": '"',
    "apostrophes": "'",
    "escaped quotation marks": '[\\"',
    "lines of JSON": '{"a": 1}\n',
    "lines of escaped JSON": "{&quot;a&quot;\n",
    "open fences": "```\n[\n",
    "fences of two kinds": "~~~~\n```\n",
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
    "grouped numbers": "1 000 ",
    "dotted numbers": "1.1",
    "paths": "a/",
    "files": "a.",
    "hosts": "a://",
    "mail addresses": "a@",
    "names": "a_",
    "dashed names": "send-",
    "table rules": "-|-",
    "commas": "a,",
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
