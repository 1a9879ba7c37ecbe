"""Answers whose tools gave secrets away: one of each stored format, with what they say without the secrets."""

import json
from html import escape

from tests.builders import answer, called, returned, said

KEY = "sk-ant-api03-" + "aB3_" * 12
PASSWORD = "hV7#pl2wQ9"
RESULT = {
    "dsn": f"postgres://app:{PASSWORD}@db/x",
    "note": 'a "quoted" <b> & more',
    "rows": [[1, KEY]],
    "password": "x1y2z3",
}
CLEAN = {
    "dsn": "postgres://app:[masked: password]@db/x",
    "note": 'a "quoted" <b> & more',
    "rows": [[1, "[masked: API key]"]],
    "password": "[masked: password]",
}
ARGUMENTS = {"url": "https://api.example.com", "headers": {"Authorization": "Bearer abcdefghij0123456789"}}
CLEAN_ARGUMENTS = {"url": "https://api.example.com", "headers": {"Authorization": "Bearer [masked: bearer token]"}}


def fold(arguments: str, attributes: str, body: str = "") -> str:
    return (
        f'<details type="tool_calls" done="true" id="call_1" name="fetch" arguments="{arguments}"{attributes}'
        f' files="" embeds="">\n<summary>Tool Executed</summary>\n{body}</details>'
    )


def escaped(value: object, times: int = 1) -> str:
    text = json.dumps(value)
    for _ in range(times):
        text = escape(text)
    return text


FORMATS = {
    "output items": answer(
        said("Here:"), called("1", "fetch", json.dumps(ARGUMENTS)), returned("1", json.dumps(RESULT)), said("Done.")
    ),
    "arguments as an object": answer(
        said("Here:"), called("1", "fetch", ARGUMENTS), returned("1", json.dumps(RESULT)), said("Done.")
    ),
    "attributes": answer(text="Here:\n" + fold(escaped(ARGUMENTS), f' result="{escaped(RESULT)}"') + "\nDone."),
    "attributes, escaped twice": answer(
        text="Here:\n" + fold(escaped(ARGUMENTS, 2), f' result="{escaped(RESULT, 2)}"') + "\nDone."
    ),
    "a JSON string in attributes": answer(
        text="Here:\n" + fold(escaped(ARGUMENTS), f' result="{escaped(json.dumps(RESULT))}"') + "\nDone."
    ),
    "body": answer(text="Here:\n" + fold(escaped(ARGUMENTS), "", escaped(RESULT) + "\n") + "\nDone."),
    "body, not escaped": answer(text="Here:\n" + fold(escaped(ARGUMENTS), "", json.dumps(RESULT)) + "\nDone."),
}
BARE = answer(text=f"Here:\n\n{escaped(RESULT)}\n\nDone.")
"""The format that has no arguments and no name."""
