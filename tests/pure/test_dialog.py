"""What a user reads of a summary: no text of it is markup on the page."""

import re
from html.parser import HTMLParser

import pytest

from service.api.dialog import describe_view
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
