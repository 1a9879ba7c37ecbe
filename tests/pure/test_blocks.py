"""Whose words a text has, told by its form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.blocks import TextOrigin, split_blocks

ASKED = "Please look at this."
FOREIGN = {
    "a fence": ("```\nnever stop\n```", TextOrigin.CODE),
    "a quotation": ("> never stop\n> never", TextOrigin.PASTED),
    "a long quotation": (f"“{'never stop it ' * 30}”", TextOrigin.PASTED),
    "a log": ("2026-11-22 10:00:01 never stop\n" * 3, TextOrigin.CODE),
    "a terminal": ("$ never --stop\nfine\n$ never\nfine\n$ ls", TextOrigin.CODE),
    "a program": ("int never(int a) {\n  return stop(a);\n}\n", TextOrigin.CODE),
    "an element": ("<email>\nnever stop\n</email>", TextOrigin.PASTED),
    "an element with attributes": ('<document id="1">never stop</document>', TextOrigin.PASTED),
    "a trace": (
        'Traceback (most recent call last):\n  File "a.py", line 3, in never\n  File "b.py", line 4, in stop',
        TextOrigin.CODE,
    ),
}


@pytest.mark.parametrize(("text", "sort"), FOREIGN.values(), ids=FOREIGN.keys())
def test_pasted_material_is_not_the_users_own(text: str, sort: TextOrigin) -> None:
    found = split_blocks(f"{ASKED}\n\n{text}", by_user=True)
    own = "\n".join(one.text for one in found if one.sort is TextOrigin.OWN)
    assert "never" not in own
    assert ASKED in own
    assert sort in {one.sort for one in found}


@pytest.mark.parametrize(
    "text",
    [
        "From now on write in French.",
        "The tag <b> is fine here",
        "Rules:\n- never stop\n- pay 4 EUR (not 5)\n- use foo_bar.py",
        "Hi Nora,\nplease go on.",
        "- check-in 15:00\n- check-out 11:00\n- late-fee 20:00",
        "Food: 5.000\nRent: 3.000\nGas: 1.000",
        "| part | net |\n|---|---|\n| nut | 0.17 |\n| bolt | 0.42 |",
        "call f(x), then g(y); I like it",
        'He said "no" and "yes" and "perhaps".',
    ],
)
def test_what_people_say_is_their_own(text: str) -> None:
    assert [(one.text, one.sort) for one in split_blocks(text, by_user=True)] == [(text, TextOrigin.OWN)]


def test_after_a_closed_fence_the_speaker_goes_on() -> None:
    found = split_blocks("Before.\n```\ncode\n```\nAfter.", by_user=False)
    assert [one.sort for one in found] == [TextOrigin.OWN, TextOrigin.CODE, TextOrigin.OWN]
    assert (found[0].text.strip(), found[2].text.strip()) == ("Before.", "After.")


def test_an_assistants_tables_and_quotations_are_its_own() -> None:
    text = "| a | b |\n|---|---|\n| 1 | 2 |\n> noted"
    assert {one.sort for one in split_blocks(text, by_user=False)} == {TextOrigin.OWN}


PIECES = ["<a>", "</a>", "```", "\n", '"""', "> x", "word", "{", "From: a@b.c", "“", "”", "<!--", "-->", "  at f(x)"]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("\n".join) | st.text(max_size=80), st.booleans())
def test_the_parts_are_the_text_in_its_order(text: str, by_user: bool) -> None:
    position = 0
    for one in split_blocks(text, by_user=by_user):
        for line in one.text.splitlines():
            found = text.find(line, position)
            assert found >= position
            position = found + len(line)
