"""Stored messages of all four formats without their tools' secrets: they parse to the same steps but for the masks."""

import json
from html import escape
from typing import Any

import pytest

from service.transcript import mask_message, parse, split_steps
from tests.builders import Json, answer, ran, said, thought, user
from tests.leaks import ARGUMENTS, CLEAN, CLEAN_ARGUMENTS, FORMATS, KEY, PASSWORD, RESULT, escaped, fold


def calls(stored: Json) -> list[tuple[str, Any, Any]]:
    return [
        (one.call.name, json.loads(one.call.arguments), json.loads(one.result.text))
        for step in split_steps(parse(stored))
        for one in step.calls
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_arguments_and_results_lose_their_secrets_and_nothing_else(name: str) -> None:
    stored = FORMATS[name]

    clean = mask_message(stored)

    assert calls(stored) == [("fetch", ARGUMENTS, RESULT)]
    assert calls(clean) == [("fetch", CLEAN_ARGUMENTS, CLEAN)]
    assert (
        [step.text for step in split_steps(parse(clean))]
        == [step.text for step in split_steps(parse(stored))]
        == ["Here:", "Done."]
    )
    assert mask_message(clean) == clean


def test_what_is_not_a_value_of_a_tool_stays_byte_for_byte() -> None:
    around = f'My key is {KEY} &amp; "so".\n<details type="reasoning">\n<summary>x</summary>\n&gt; {KEY}\n</details>\n'
    stored = answer(text=around + fold("{}", f' result="{escaped([KEY])}"') + around)

    clean = mask_message(stored)

    assert clean["content"] == around + fold("{}", ' result="[&quot;[masked: API key]&quot;]"') + around


@pytest.mark.parametrize("output", [{"stdout": f"key {KEY}"}, f"key {KEY}"])
def test_code_that_ran_and_what_it_printed_lose_their_secrets(output: object) -> None:
    stored = answer(ran(f"login({PASSWORD!r}, password={PASSWORD!r})", output))

    clean = mask_message(stored)

    (step,) = split_steps(parse(clean))
    assert "password='[masked: password]'" in step.text
    assert step.text.endswith("key [masked: API key]")


def test_a_code_interpreter_in_the_text_loses_its_secrets() -> None:
    text = (
        f'<details type="code_interpreter" done="true" output="{escape(json.dumps({"stdout": f"key {KEY} &amp;"}))}">\n'
        f"<summary>Analyzed</summary>\n```python\nif a &lt; 1 or b == &#x27;&amp;lt;&#x27;: key = '{KEY}'\n```\n"
        "</details>\nDone."
    )

    clean = mask_message(answer(text=text))

    assert [step.text for step in split_steps(parse(clean))] == [
        step.text.replace(KEY, "[masked: API key]") for step in split_steps(parse(answer(text=text)))
    ]


def test_what_people_and_models_wrote_stays_as_it_is() -> None:
    for stored in (user(f"My key is {KEY}"), answer(text=f"Use {KEY}"), answer(said(f"Use {KEY}"), thought(KEY))):
        assert mask_message(stored) == stored


def test_a_message_of_a_tool_loses_its_secrets() -> None:
    tool = {"id": "t", "role": "tool", "content": f"key {KEY}"}

    assert mask_message(tool) == {"id": "t", "role": "tool", "content": "key [masked: API key]"}
