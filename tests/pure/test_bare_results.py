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
FORMS = [json.dumps(BOATS), json.dumps(BOATS, indent=2, ensure_ascii=False)]
FORMS += [escape(form) for form in FORMS]


def read_results(text: str) -> list[object]:
    return [json.loads(item.text) for item in parse(answer(text=text)).items if isinstance(item, ToolResult)]


def told(text: str) -> list[str]:
    return [item.text for item in parse(answer(text=text)).items if isinstance(item, Text)]


THOUGHT = '<details type="reasoning">\n<summary>x</summary>\n&gt; hm\n</details>'


@pytest.mark.parametrize(
    ("text", "results", "words"),
    [
        *[(f"I looked:\n\n{form}\n\nTwo boats.", [BOATS], ["I looked:", "Two boats."]) for form in FORMS],
        (f"{FORMS[0]}{THOUGHT}\n{FORMS[0]}", [BOATS, BOATS], []),
        # A fence that closes hides nothing below it.
        (f"```python\nprint()\n```\n\n{FORMS[0]}", [BOATS], ["```python\nprint()\n```"]),
        (f"``` in a line ```\n\n{FORMS[0]}", [BOATS], ["``` in a line ```"]),
    ],
)
def test_a_value_that_stands_by_itself_is_a_result(text: str, results: list[object], words: list[str]) -> None:
    assert read_results(text) == results
    assert told(text) == words


PLAIN = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(exclude_categories=["Cs"]))
ANY = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text("ab'\"\\ "), inner), max_leaves=8)


@given(st.dictionaries(st.sampled_from(["rows", "it's", 'a "b"']), ANY, min_size=1))
@settings(max_examples=examples(150))
def test_any_object_is_read_as_it_was(value: dict[str, object]) -> None:
    plain = json.dumps(value)
    for form in (plain, escape(plain)):
        assert read_results(f"Here:\n\n{form}\n\nDone.") == [value]


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


def test_a_user_who_pastes_a_value_has_said_it() -> None:
    pasted: Json = {"id": "u", "role": "user", "content": json.dumps(BOATS)}

    assert parse(pasted).items == (Text(json.dumps(BOATS)),)


@pytest.mark.parametrize("shown", [json.dumps(RESULT), escape(json.dumps(RESULT))])
def test_a_bare_value_loses_its_secrets_and_is_still_read(shown: str) -> None:
    clean = mask_message(answer(text=f"Here:\n\n{shown}\n\nDone."))

    (step, _) = split_steps(parse(clean))
    assert KEY not in clean["content"]
    assert ("&quot;" in clean["content"]) == ("&quot;" in shown)
    assert [json.loads(call.result.text) for call in step.calls] == [CLEAN]
    assert mask_message(clean) == clean
