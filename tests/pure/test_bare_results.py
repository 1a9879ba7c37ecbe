"""Results that stand bare in an answer's text are read in every form in which they were seen."""

import json
from html import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.transcript import mask_message, parse, split_steps
from service.transcript.items import Text, ToolResult
from tests.builders import Json, answer
from tests.effort import examples
from tests.leaks import CLEAN, KEY, RESULT

BOATS = [
    {"id": 41, "name": 'The "Heron"', "sold": True, "keeper": None},
    {"id": 42, "name": "Anna's joy\nand more", "sold": False, "keeper": "Zoë 船 \\ 7"},
]
FORMS = {
    "a list of objects": json.dumps(BOATS),
    "pretty": json.dumps(BOATS, indent=2, ensure_ascii=False),
}
HTML = {f"{name}, as HTML": escape(form) for name, form in FORMS.items()}


def results(text: str) -> list[object]:
    return [json.loads(item.text) for item in parse(answer(text=text)).items if isinstance(item, ToolResult)]


def told(text: str) -> list[str]:
    return [item.text for item in parse(answer(text=text)).items if isinstance(item, Text)]


@pytest.mark.parametrize("form", (FORMS | HTML).values(), ids=(FORMS | HTML).keys())
def test_a_paragraph_that_is_a_value_is_a_result(form: str) -> None:
    text = f"I looked:\n\n{form}\n\nTwo boats."

    assert results(text) == [BOATS]
    assert told(text) == ["I looked:", "Two boats."]


PLAIN = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(exclude_categories=["Cs"]))
ANY = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text("ab'\"\\ "), inner), max_leaves=8)


@given(st.dictionaries(st.sampled_from(["rows", "it's", 'a "b"']), ANY, min_size=1))
@settings(max_examples=examples(150))
def test_any_object_is_read_as_it_was(value: dict[str, object]) -> None:
    plain = json.dumps(value)
    for form in (plain, escape(plain)):
        assert results(f"Here:\n\n{form}\n\nDone.") == [value]


def test_a_value_beside_a_fold_is_a_result() -> None:
    thought = '<details type="reasoning">\n<summary>x</summary>\n&gt; hm\n</details>'

    assert results(f"{json.dumps(BOATS)}{thought}\n{json.dumps(BOATS)}") == [BOATS, BOATS]


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{json.dumps(BOATS)}\n```",
        f"```\nfirst\n\n{json.dumps(BOATS)}\n\nlast\n```",
        f"~~~~\n~~~\n\n{escape(json.dumps(BOATS))}\n~~~~",
        f"````md\n```\n\n{json.dumps(BOATS)}\n\n```\n````",
        f"- an item\n\n    {json.dumps(BOATS[0])}",
        f"It would say\n{json.dumps(BOATS[0])}",
        f"{json.dumps(BOATS[0])} is what it says.",
        f"{escape(json.dumps(BOATS))}\nTwo boats.",
        "[1]\n\n[1, 2, 3]\n\n{}\n\n[[1], [2]]",
        '"We stay," she said. "It\'s late."',
        "{&quot;a&quot;: broken",
    ],
)
def test_what_the_assistant_wrote_stays_text(text: str) -> None:
    assert told(text) == [text]


def test_a_fence_that_closes_hides_nothing_below_it() -> None:
    text = f"```python\nprint()\n```\n\n{json.dumps(BOATS)}\n\n``` in a line ```\n\n{json.dumps(BOATS)}"

    assert results(text) == [BOATS, BOATS]


def test_a_user_who_pastes_a_value_has_said_it() -> None:
    pasted: Json = {"id": "u", "role": "user", "content": json.dumps(BOATS)}

    assert parse(pasted).items == (Text(json.dumps(BOATS)),)


@pytest.mark.parametrize("shown", [json.dumps(RESULT), escape(json.dumps(RESULT))])
def test_a_bare_value_loses_its_secrets_and_is_still_read(shown: str) -> None:
    clean, count = mask_message(answer(text=f"Here:\n\n{shown}\n\nDone."))

    (step, _) = split_steps(parse(clean))
    assert count > 0
    assert KEY not in clean["content"]
    assert ("&quot;" in clean["content"]) == ("&quot;" in shown)
    assert [json.loads(call.result.text) for call in step.calls] == [CLEAN]
    assert mask_message(clean) == (clean, 0)
