"""What a user reads of a summary: no text of it is markup on the page."""

import re
from html.parser import HTMLParser

import pytest

from service.api.dialog import CLOSES, LEAVE, RENEWED, TITLE, describe_view, make_dialog
from service.api.wire import Button
from service.usecases.left_alone import SummaryView
from tests.dialogs import shown


class Elements(HTMLParser):
    """The elements of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.found += [name for name, _ in attrs if name not in ("tabindex", "style")]


HOSTILE = (
    '<img src=x onerror="alert(1)">',
    "![](https://evil.example/a.png) [here](javascript:alert(1)) https://evil.example www.evil.example",
    "</div><script>alert(1)</script>",
    "&lt;script&gt; &#60;b&#62;",
    "\n\n# Head\n\n```\ncode\n```\n$$x$$ \\(y\\) ~~z~~ | a | b |\n|---|---|",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_text_is_markup(text: str) -> None:
    seen = describe_view(SummaryView(False, text, 4, 2, text, 12000, 3000, 16000, is_needed=True, working=False))

    assert Elements(seen).found == ["div"]
    assert text.strip() in shown(seen)
    assert f"up to “{' '.join(text.split())[:80]}…”" in shown(seen)
    assert set(re.sub(r"&#\d+;|\w| ", "", seen.partition("<div")[2].partition(">")[2])) <= set("</>")
    for part in ("![", "](", "://", "www.", "```", "$$"):
        assert part not in seen


def test_characters_that_turn_or_hide_a_text_are_left_out() -> None:
    text = "pumps\u202e\u200b\x00 in cellar 7"
    seen = describe_view(SummaryView(False, text, 4, 2, "", 12000, 3000, 16000, is_needed=True, working=False))

    assert "pumps in cellar 7" in seen


@pytest.mark.parametrize(("is_needed", "said"), [(False, "this chat still fits"), (True, "this chat needs a summary")])
def test_without_a_summary_it_is_said_whether_the_chat_needs_one(is_needed: bool, said: str) -> None:
    seen = describe_view(SummaryView(False, "", 2, 0, "", 20, 20, 16000, is_needed=is_needed, working=False))

    assert seen.startswith("0% of the model's window: about 20 of 16,000 tokens.")
    assert said in seen


@pytest.mark.parametrize(("button", "title"), [("summary", TITLE), ("now", RENEWED), ("leave", LEAVE[0])])
def test_a_dialog_has_the_title_of_its_button_and_says_if_it_only_shows_something(button: Button, title: str) -> None:
    view = SummaryView(False, "Text", 4, 2, "", 12000, 3000, 16000, is_needed=True, working=False)

    made = make_dialog(button, view)

    assert made.title == title
    assert made.text.endswith(CLOSES) is (button != "leave")
