"""HTML escapes of any text are undone, and none of them stops what reads it."""

import pytest

from service.text.escapes import unescape_html
from service.transcript import parse, split_steps


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        ("a &lt; b &amp; c", "a < b & c"),
        ("&#65;&#x42;&#0000067;", "ABC"),
        ("&#" + "0" * 5000 + "65;", "A"),
        ("nothing", "nothing"),
    ],
)
def test_an_escape_is_undone(escaped: str, text: str) -> None:
    assert unescape_html(escaped) == text


ENDLESS = "&#" + "1" * 5000 + ";"


def test_such_a_number_does_not_stop_reading() -> None:
    fold = f'<details type="tool_calls" id="c" name="q" result="{ENDLESS}">x</details>'
    (step,) = split_steps(parse({"id": "m", "role": "assistant", "content": fold}))
    assert step.calls[0].result.text == ENDLESS
